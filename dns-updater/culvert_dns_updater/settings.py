"""Settings: environment CULVERT_DNS_*, then a TOML file. Parsed once, immutable."""

from __future__ import annotations

import logging
import tomllib
from pathlib import Path
from typing import Annotated

import pydantic_settings
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from culvert_dns_updater import tsig_key
from culvert_dns_updater.records import Ownership, parse_name
from culvert_dns_updater.tsig_key import KeyFileError, TsigKey
from culvert_dns_updater.zone import Server, Zone

_log = logging.getLogger(__name__)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="CULVERT_DNS_", frozen=True, extra="forbid")

    # Exactly one of the two.
    database_url: SecretStr | None = None
    database_url_file: Path | None = None
    server: str
    port: int = Field(default=53, ge=1, le=65535)
    # In the environment: separated by commas.
    zones: Annotated[tuple[str, ...], NoDecode] = Field(min_length=1)
    # BIND's key syntax, or the base64 secret alone with key_name.
    key_file: Path
    key_name: str | None = None
    key_algorithm: str = "hmac-sha256"
    # Tells our records from another Culvert's in the same zone.
    instance: str = Field(default="default", pattern=r"^[A-Za-z0-9-]{1,63}$")
    # Seconds.
    ttl: int = Field(default=60, ge=0, le=86400)
    poll_seconds: float = Field(default=30, gt=0)
    timeout_seconds: float = Field(default=5, gt=0)

    @field_validator("zones", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [part for part in value.replace(",", " ").split() if part] if isinstance(value, str) else value

    @field_validator("zones")
    @classmethod
    def _canonical(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        names = [parse_name(zone) for zone in value]
        if None in names:
            raise ValueError("a zone is not a DNS name")
        return tuple(sorted({name for name in names if name is not None}))

    @model_validator(mode="after")
    def _one_database(self) -> Settings:
        if (self.database_url is None) == (self.database_url_file is None):
            raise ValueError("set either database_url or database_url_file")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # The file comes in as arguments, and the environment wins.
        return env_settings, init_settings

    def database(self) -> str:
        """Raises SettingsError."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        assert self.database_url_file is not None
        try:
            return self.database_url_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise SettingsError(
                f"{self.database_url_file} cannot be read: {error.strerror}. The controller writes it when it starts."
            ) from None

    def make_zones(self) -> list[Zone]:
        """Raises SettingsError when the TSIG key can't be used."""
        key = KeySource(self)
        server = Server(self.server, self.port, self.timeout_seconds)
        return [Zone(zone, server, Ownership(self.instance, self.ttl), key) for zone in self.zones]


class SettingsError(Exception):
    """The settings can't be used; the text says which and why, without a secret."""


def load(file: Path | None) -> Settings:
    """The environment over the file. Raises SettingsError."""
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8")) if file is not None else {}
        return Settings.model_validate(values)
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is not TOML: {error}") from None
    except (ValidationError, pydantic_settings.SettingsError) as error:
        raise SettingsError(_explain(error)) from None


def _explain(error: ValidationError | pydantic_settings.SettingsError) -> str:
    if isinstance(error, pydantic_settings.SettingsError):
        return str(error)
    # Pydantic's own text repeats the values, and one of them may be the database's password.
    return "; ".join(
        f"{'.'.join(str(part) for part in item['loc']) or 'settings'}: {item['msg']}"
        for item in error.errors(include_input=False, include_url=False)
    )


class KeySource:
    """The TSIG key, read again at each use. A file that has become unusable is reported, and the last good key stays."""

    def __init__(self, settings: Settings) -> None:
        """Raises SettingsError."""
        self._settings = settings
        try:
            self._key = self._load()
        except KeyFileError as error:
            raise SettingsError(str(error)) from None

    def __call__(self) -> TsigKey:
        try:
            self._key = self._load()
        except KeyFileError as error:
            _log.warning("%s; using the key read before", error)
        return self._key

    def _load(self) -> TsigKey:
        s = self._settings
        return tsig_key.load(s.key_file, name=s.key_name, algorithm=s.key_algorithm)
