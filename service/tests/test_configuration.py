"""Settings, and the files that hold secrets."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from culvert_service import private_files
from culvert_service.config import ConfigurationError, load
from culvert_service.pki.master_key import MasterKey, MasterKeyError


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "controller.toml"
    file.write_text(
        'rest_listen = "192.0.2.10:8443"\nagent_listen = "192.0.2.20:9444"\n'
        'managed_zones = ["Corp.Example."]\nprotected_prefixes = ["10.30.0.0/16"]\n'
    )
    monkeypatch.setenv("CULVERT_AGENT_LISTEN", "192.0.2.10:8444")
    monkeypatch.setenv("CULVERT_PROTECTED_PREFIXES", "10.20.0.0/16, 2001:db8:20::/48")
    settings = load(file)
    assert settings.managed_zones == ("corp.example",)
    assert settings.protected_prefixes == ("10.20.0.0/16", "2001:db8:20::/48")
    assert (settings.rest_url, settings.agent_address) == ("https://192.0.2.10:8443", "192.0.2.10:8444")
    assert settings.certificate_names == ("192.0.2.10",)


def test_a_wrong_setting_is_named_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULVERT_REST_LISTEN", "s3cret")
    with pytest.raises(ConfigurationError, match="rest_listen") as error:
        load(None)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("variable", ["CULVERT_SECRETS_DIR", "CREDENTIALS_DIRECTORY"])
def test_a_secret_comes_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    (tmp_path / "culvert_database_url").write_text("postgresql://culvert:s3cret@db.corp.example/culvert\n")
    monkeypatch.setenv(variable, str(tmp_path))
    settings = load(None)
    assert settings.database_url is not None
    assert settings.database_url.get_secret_value().endswith("@db.corp.example/culvert")
    assert "s3cret" not in repr(settings)
    monkeypatch.setenv("CULVERT_DATABASE_URL", "postgresql://other")
    settings = load(None)
    assert settings.database_url is not None
    assert settings.database_url.get_secret_value() == "postgresql://other"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://vpn.corp.example/culvert", "must have no path: .*a name of its own"),
        ("https://vpn.corp.example/culvert/", "must have no path"),
        ("https://vpn.corp.example?x=1", r"must be https://HOST\[:PORT\]"),
        ("https://vpn.corp.example/#x", "must be https://HOST"),
        ("https://user:s3cret@vpn.corp.example", "must be https://HOST"),
        ("http://vpn.corp.example", "must be https://HOST"),
        ("https://:8443", "must be https://HOST"),
        ("https://vpn.corp.example:0", "must be https://HOST"),
        ("https://vpn.corp.example:99999", "Port out of range"),
        ("https://[::1", "Invalid IPv6 URL"),
        ("vpn.corp.example", "must"),
    ],
)
def test_the_public_url_is_a_host_as_a_whole(monkeypatch: pytest.MonkeyPatch, url: str, why: str) -> None:
    monkeypatch.setenv("CULVERT_PUBLIC_REST_URL", url)
    with pytest.raises(ConfigurationError, match=f"public_rest_url: .*{why}") as error:
        load(None)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://vpn.corp.example", "vpn.corp.example"),
        ("https://vpn.corp.example:8443/", "vpn.corp.example"),
        ("https://[2001:db8::1]:8443", "2001:db8::1"),
    ],
)
def test_the_certificate_has_the_public_urls_host(
    monkeypatch: pytest.MonkeyPatch, url: str, name: str
) -> None:
    monkeypatch.setenv("CULVERT_PUBLIC_REST_URL", url)
    settings = load(None)
    assert settings.rest_url == url.rstrip("/")
    assert settings.certificate_names[0] == name


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        (
            "otlp_endpoint",
            "http://collector:4318/v1/traces",
            "must be https://HOST[:PORT] or http://HOST[:PORT]",
        ),
        ("p4runtime_role", "A role", "must be at most 64 of the characters a to z"),
    ],
)
def test_a_refusal_shows_no_regular_expression(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, why: str
) -> None:
    monkeypatch.setenv(f"CULVERT_{name.upper()}", value)
    with pytest.raises(ConfigurationError) as error:
        load(None)
    assert str(error.value).startswith(f"{name}: Value error, {why}")


def test_a_file_that_cannot_be_read_is_named_once_and_without_a_number(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as error:
        load(tmp_path / "nowhere.toml")
    assert str(error.value) == f"{tmp_path}/nowhere.toml: No such file or directory"


def test_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "controller.toml"
    file.write_text("rest_lisen = 1\n")
    with pytest.raises(ConfigurationError, match="rest_lisen"):
        load(file)


def test_concurrent_makers_of_a_private_file_agree(tmp_path: Path) -> None:
    path, found = tmp_path / "key", list[bytes]()

    def make(n: int) -> None:
        found.append(private_files.read_or_make(path, lambda: bytes([n])))

    threads = [threading.Thread(target=make, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [path.read_bytes()] * len(threads)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["key"]


def test_a_secret_opens_only_where_it_was_put(tmp_path: Path) -> None:
    key = MasterKey.load(tmp_path)
    sealed = key.seal(b"secret", "totp 1")
    assert b"secret" not in sealed
    assert MasterKey.load(tmp_path).open(sealed, "totp 1") == b"secret"
    with pytest.raises(MasterKeyError):
        key.open(sealed, "totp 2")
    with pytest.raises(MasterKeyError):
        MasterKey(bytes(32)).open(sealed, "totp 1")


def test_a_secret_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "culvert_database_url").write_bytes(b"s3cret\xff")
    monkeypatch.setenv("CULVERT_SECRETS_DIR", str(tmp_path))
    with pytest.raises(ConfigurationError, match="database_url") as error:
        load(None)
    assert "s3cret" not in str(error.value)


def test_a_secret_is_read_as_kubernetes_lays_it_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "..2026_11_27").mkdir()
    (tmp_path / "..2026_11_27/culvert_database_url").write_text("postgresql://db/culvert\n")
    (tmp_path / "..data").symlink_to("..2026_11_27")
    (tmp_path / "culvert_database_url").symlink_to("..data/culvert_database_url")
    monkeypatch.setenv("CULVERT_SECRETS_DIR", str(tmp_path))
    assert load(None).database_url is not None
