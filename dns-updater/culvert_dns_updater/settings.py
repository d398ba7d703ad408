"""Settings: environment CULVERT_DNS_*, then a TOML file. Parsed once, immutable."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pydantic_settings
from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="CULVERT_DNS_", frozen=True, extra="forbid")

    # The database's URL, or a file that has it (the controller writes one, `database-url`): exactly one of the two.
    database_url: SecretStr | None = None
    database_url_file: Path | None = None
    # Has NAME.key for each zone with the `key` NAME: in BIND's key syntax, or only the base64 secret.
    key_dir: Path = Path("/etc/culvert/dns-keys")
    # Seconds: the interval of passes without changes; a message's timeout; the time after which a dead updater is replaced.
    poll_seconds: float = Field(default=30, gt=0)
    timeout_seconds: float = Field(default=5, gt=0)
    lease_seconds: float = Field(default=10, ge=1)
    # HTTP endpoints for monitoring, "host:port"; unset: none. They have no authentication.
    monitoring_listen: str | None = Field(default=None, pattern=r"^\S+:\d{1,5}$")
    # One JSON object for each line of the log.
    log_json: bool = False

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
        # The file's values are the arguments; the environment has precedence.
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


class SettingsError(Exception):
    """A setting is invalid; the text names it and the cause, without a secret."""


def load(file: Path | None) -> Settings:
    """Load the file; the environment has precedence. Raises SettingsError."""
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
