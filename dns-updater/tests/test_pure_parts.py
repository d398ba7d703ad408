"""Names, the schedule, the key file and the settings."""

from __future__ import annotations

import base64
import ipaddress
from pathlib import Path

import pytest
from culvert_dns_updater import schedule, settings, tsig_key
from culvert_dns_updater.desired import desired
from culvert_dns_updater.records import parse_name
from culvert_dns_updater.settings import SettingsError
from culvert_dns_updater.tsig_key import KeyFileError
from hypothesis import given
from hypothesis import strategies as st

SECRET = "yCJ/LLYUxkTCI2NWytpJsrIPVDW0vZ7f09yzGRhNgyM="
BIND_KEY = f"""
# made by tsig-keygen
key "culvert-dns" {{
        algorithm hmac-sha256;
        secret "{SECRET}";
}};
"""


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_the_wait_is_bounded_and_grows(failures: int, chance: float) -> None:
    now = schedule.wait(failures, 30, chance)
    assert 0.5 <= now <= schedule.LONGEST_RETRY
    if failures:
        assert schedule.wait(failures + 1, 30, 0) >= now / 2
    else:
        assert now == 30


def test_names_take_one_form() -> None:
    assert parse_name("Wiki.Corp.Example.") == "wiki.corp.example"
    assert parse_name("a..b") is None
    assert parse_name(".") is None
    assert parse_name("x" * 64 + ".example") is None
    assert parse_name(".".join(["x" * 49] * 5)) is None  # no room for the owner name


def test_resources_go_into_the_most_specific_zone() -> None:
    address = ipaddress.ip_address("10.20.0.10")
    resources = [
        ("wiki.corp.example", address),
        ("a.lab.corp.example", address),
        ("notcorp.example", address),
    ]
    found = desired(resources, ("corp.example", "lab.corp.example"))
    assert {zone: set(names) for zone, names in found.zones.items()} == {
        "corp.example": {"wiki.corp.example"},
        "lab.corp.example": {"a.lab.corp.example"},
    }
    assert found.outside == {"notcorp.example"}


def _write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


@given(st.one_of(st.binary(min_size=16, max_size=64), st.just(b"\xff" * 32)))
def test_every_secret_is_read_back(tmp_path_factory: pytest.TempPathFactory, secret: bytes) -> None:
    text = base64.b64encode(secret).decode()
    file = _write(tmp_path_factory.mktemp("key") / "key", BIND_KEY.replace(SECRET, text))
    assert tsig_key.load(file, name=None, algorithm="hmac-sha256").secret == secret


def test_both_forms_of_the_key_are_one_key(tmp_path: Path) -> None:
    bind = tsig_key.load(_write(tmp_path / "bind", BIND_KEY), name=None, algorithm="hmac-sha512")
    bare = tsig_key.load(
        _write(tmp_path / "bare", SECRET + "\n"), name="culvert-dns", algorithm="hmac-sha256"
    )
    assert bind == bare


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        (BIND_KEY, 0o640, "mode 0640"),
        ("", 0o600, "not a TSIG key file"),
        (SECRET, 0o600, "CULVERT_DNS_KEY_NAME"),
        (BIND_KEY.replace("hmac-sha256", "hmac-md5"), 0o600, "algorithm"),
        (BIND_KEY.replace(SECRET, "A"), 0o600, "malformed"),
        (BIND_KEY.replace("secret", "server"), 0o600, "not a TSIG key file"),
    ],
)
def test_an_unusable_key_file_is_refused_without_quoting_it(
    tmp_path: Path, text: str, mode: int, why: str
) -> None:
    with pytest.raises(KeyFileError, match=why) as caught:
        tsig_key.load(_write(tmp_path / "key", text, mode), name=None, algorithm="hmac-sha256")
    assert SECRET not in str(caught.value)


def test_the_key_does_not_show_its_secret(tmp_path: Path) -> None:
    key = tsig_key.load(_write(tmp_path / "key", BIND_KEY), name=None, algorithm="hmac-sha256")
    assert SECRET not in f"{key!r} {key}"


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _write(
        tmp_path / "updater.toml",
        'server = "192.0.2.53"\nzones = ["corp.example"]\nkey_file = "/k"\ndatabase_url_file = "/d"\n',
    )
    monkeypatch.setenv("CULVERT_DNS_ZONES", "Corp.Example., lab.example")
    found = settings.load(file)
    assert found.server == "192.0.2.53"
    assert found.zones == ("corp.example", "lab.example")


def test_wrong_settings_are_told_without_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CULVERT_DNS_DATABASE_URL", "postgresql://culvert:hunter2@db/culvert")
    monkeypatch.setenv("CULVERT_DNS_PORT", "hunter2")
    with pytest.raises(SettingsError, match="port") as caught:
        settings.load(None)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(SettingsError, match="cannot be read"):
        settings.load(tmp_path / "absent.toml")
