"""Settings and private files."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from culvert_service import private_files
from culvert_service.config import ConfigurationError, load
from culvert_service.pki.master_key import MasterKey, MasterKeyError


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "controller.toml"
    file.write_text('rest_listen = "192.0.2.10:8443"\nmanaged_zones = ["Corp.Example."]\n')
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


def test_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "controller.toml"
    file.write_text("rest_lisen = 1\n")
    with pytest.raises(ConfigurationError, match="rest_lisen"):
        load(file)


def test_of_two_makers_one_wins(tmp_path: Path) -> None:
    path, found = tmp_path / "key", list[bytes]()

    def make(n: int) -> None:
        found.append(private_files.read_or_make(path, lambda: bytes([n])))

    threads = [threading.Thread(target=make, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
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
