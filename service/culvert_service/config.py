"""Settings: environment CULVERT_*, then a directory with a file for each secret, then a TOML file. Parsed once."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from culvert_proto import dns_name, protected_prefix
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SecretsSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

# Written by `culvert-controller setup`; commands without settings of their own use it.
INSTALLED = Path("/etc/culvert/controller.toml")
_LISTEN = re.compile(r"^(?P<host>[^\s:]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})$")
# Console, documentation and program: a package has them beside the code that they fit, a checkout where they are built.
_SHIPPED = Path(__file__).resolve().parent / "shipped"
_CHECKOUT = Path(__file__).resolve().parents[2]
_ARTIFACTS = _SHIPPED / "p4" if _SHIPPED.is_dir() else _CHECKOUT / "p4/build"
_DOCUMENTATION = _SHIPPED / "docs" if _SHIPPED.is_dir() else _CHECKOUT / "build/docs/site"
_CONSOLE = _SHIPPED / "console" if _SHIPPED.is_dir() else _CHECKOUT / "service/console/dist"


class ConfigurationError(Exception):
    """A setting is missing or wrong; the message names it."""


def _split(value: object) -> object:
    return [part for part in value.replace(",", " ").split() if part] if isinstance(value, str) else value


def _prefix(value: str) -> str:
    return str(ipaddress.ip_network(value))


def protected(value: str) -> str:
    """A prefix that devices accept as protected. Raises ValueError."""
    prefix = ipaddress.ip_network(value)
    if protected_prefix.is_too_wide(prefix):
        raise ValueError(f"{prefix} is too wide for an intranet")
    if protected_prefix.holds_own_addresses(prefix):
        raise ValueError(f"{prefix} has addresses that each computer needs for itself")
    return str(prefix)


def _listen(value: str) -> str:
    match = _LISTEN.match(value)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise ValueError("must be HOST:PORT")
    return value


def _issuer(value: str) -> str:
    parts = urlsplit(value)
    # HTTP only on this computer, for tests.
    if parts.scheme != "https" and (parts.scheme, parts.hostname) != ("http", "localhost"):
        raise ValueError("must be an https address")
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError("must have no user, no query and no fragment")
    return value


def _directory(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme != "https" or not parts.hostname or parts.username is not None or parts.fragment:
        raise ValueError("must be an https address without a user and a fragment")
    return value


def _contact(value: str) -> str:
    if not re.fullmatch(r"mailto:[^\s@,?]+@[^\s@,?]+", value):
        raise ValueError("must be one address, as mailto:admin@corp.example")
    return value


def _public_url(value: str) -> str:
    if urlsplit(value).path.strip("/"):
        raise ValueError(
            "must have no path: API, console and cookies belong to a host as a whole, so give the controller a name of its "
            "own, and let the reverse proxy pass all of its paths"
        )
    return _origin(value, "https")


def _collector(value: str) -> str:
    return _origin(value, "https", "http")


def _origin(value: str, *schemes: str) -> str:
    parts = urlsplit(value)
    beside = parts.path.strip("/") or parts.query or parts.fragment or parts.username
    # `port` raises ValueError for an invalid port.
    if (
        parts.scheme not in schemes
        or not parts.hostname
        or beside
        or parts.port == 0
        or re.search(r"\s", value)
    ):
        raise ValueError(f"must be {' or '.join(f'{scheme}://HOST[:PORT]' for scheme in schemes)}")
    return value


def _role(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9._-]{0,64}", value):
        raise ValueError("must be at most 64 of the characters a to z, 0 to 9, dot, underscore and hyphen")
    return value


Listen = Annotated[str, AfterValidator(_listen)]
# The proof of an e-mail address: the claim with this name, or every address of the provider (decision 41).
EmailVerifiedBy = Literal["email_verified", "xms_edov", "provider"]
# Providers at which anybody can have an account (Microsoft's tenants for consumers, organisations, and both).
_OPEN_PROVIDERS = re.compile(
    r"https://(accounts\.google\.com|gitlab\.com|appleid\.apple\.com|login\.microsoftonline\.com"
    r"/(9188040d-6c67-4c5b-b112-36a304b66dad|consumers|organizations|common)/v2\.0)/?",
    re.IGNORECASE,
)
# In the environment, lists are separated by commas or spaces.
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Zones = Annotated[
    tuple[Annotated[str, AfterValidator(dns_name.parse)], ...], NoDecode, BeforeValidator(_split)
]
Prefixes = Annotated[tuple[Annotated[str, AfterValidator(_prefix)], ...], NoDecode, BeforeValidator(_split)]

ProtectedPrefixes = Annotated[
    tuple[Annotated[str, AfterValidator(protected)], ...],
    NoDecode,
    BeforeValidator(_split),
    Field(max_length=protected_prefix.NUMBER_MAX),
]


class Settings(BaseSettings):
    """The settings of a controller."""

    model_config = SettingsConfigDict(env_prefix="CULVERT_", frozen=True, extra="forbid")

    # Keys, CAs and the embedded database.
    state_dir: Path = Path("/var/lib/culvert")
    # HOST:PORT on which the REST API with the console, and the devices' API, are served.
    rest_listen: Listen = "127.0.0.1:8443"
    agent_listen: Listen = "127.0.0.1:8444"
    # The addresses that browsers and devices use; by default those that the controller listens on.
    public_rest_url: Annotated[str, AfterValidator(_public_url)] | None = None
    public_agent_address: Listen | None = None
    # Further DNS names and addresses in the controller's certificate; those of the four settings above are always in it.
    server_names: Names = ()
    # Any Postgres from 14 on; without it, an embedded one in state_dir.
    database_url: SecretStr | None = None
    # The same server directly, if database_url leads to a pooler in transaction mode.
    database_direct_url: SecretStr | None = None
    # DNS zones whose names open tunnels.
    managed_zones: Zones = ()
    # Zones among them in which a laptop shows a page of its own for a denied name, instead of the browser's error, until
    # an administrator chooses in the console. Programs that ask for a denied name get a loopback address there.
    denial_page_zones: Zones = ()
    # Networks that devices reach through tunnels alone: packets to them never leave in clear.
    protected_prefixes: ProtectedPrefixes = ()
    # Holds gateway.json and gateway.p4info.txtpb.
    p4_artifacts: Path = _ARTIFACTS
    # The built admin console; where there is none, only the API is served.
    console: Path = _CONSOLE
    # The signed apt repository, for laptops and gateways; the Debian package culvert-repository has it here.
    apt_repository: Path = Path("/usr/share/culvert-repository")
    # The built site of documentation, which is served at /docs.
    documentation: Path = _DOCUMENTATION
    # The P4Runtime role at every gateway, which must honour roles, as sluice does; empty: the default role.
    p4runtime_role: Annotated[str, AfterValidator(_role)] = ""
    # All policies need an approved device, not only those with that condition.
    device_approval: bool = False
    # Days after its expiry for which a certificate can be renewed with its key and a code; 0: never.
    late_renewal_days: int = Field(default=30, ge=0, le=3650)
    # Rate limits of REST calls: for an administrator or API token; for an IPv4 address or IPv6 /64 without either. Bursts
    # may be ten seconds' calls.
    rest_calls_per_second: float = Field(default=100, gt=0)
    rest_strangers_calls_per_second: float = Field(default=20, gt=0)
    # Rate limit of a device's gRPC calls, which is also the burst.
    agent_calls_per_second: float = Field(default=20, gt=0)
    # Older lines of the audit log are cut once a day; unset: all lines are kept. The directory for the export before a cut.
    audit_keep_days: int | None = Field(default=None, ge=30, le=36_500)
    audit_export_dir: Path | None = None
    # The readable name of this controller among those that share its database.
    controller_name: str = Field(default_factory=socket.gethostname, min_length=1)
    # The duration of a gateway's lease; the owner renews it after each third of that.
    lease_seconds: float = Field(default=3, ge=0.5, le=60)
    # Old keys still decrypt for this time after a switch to new ones, for packets on their way.
    drain_seconds: float = Field(default=3, ge=0.05, le=60)
    # The OpenID Connect provider for administrators and enrolment. Its redirect URI is /api/v1/oidc/callback.
    oidc_issuer: Annotated[str, AfterValidator(_issuer)] | None = None
    oidc_client_id: str | None = None
    # Holds the client's secret and nothing else.
    oidc_client_secret_file: Path | None = None
    # The CAs (PEM) trusted for the provider's certificate; unset: the system's.
    oidc_ca_file: Path | None = None
    # The proof of an e-mail address: the claim with this name, or every address of the provider.
    oidc_email_verified_by: EmailVerifiedBy = "email_verified"
    # An OpenTelemetry collector (OTLP over HTTP), and the share of operations that are traced.
    otlp_endpoint: Annotated[str, AfterValidator(_collector)] | None = None
    trace_ratio: float = Field(default=1, ge=0, le=1)
    # One JSON object for each line of the log.
    log_json: bool = False
    # Reverse proxies in front of the REST API whose X-Forwarded-For is trusted.
    trusted_proxies: Prefixes = ()
    # Load balancers in front of either port, whose connections all begin with the PROXY protocol.
    proxy_protocol: Prefixes = ()
    # The certificate (PEM, with its chain) and key of public_rest_url's name for browsers, instead of one of Culvert's CA.
    # Replaced files are read within seconds.
    public_certificate_file: Path | None = None
    public_key_file: Path | None = None
    # The directory of the ACME server that issues this certificate (TLS-ALPN-01, at port 443), instead of files.
    acme_directory: Annotated[str, AfterValidator(_directory)] | None = None
    # As mailto:admin@corp.example.
    acme_contact: Annotated[str, AfterValidator(_contact)] | None = None
    # Whether you agree to the authority's terms of service.
    acme_terms_agreed: bool = False
    # A profile of the authority, as shortlived; empty: its default.
    acme_profile: str = ""
    # The key (base64url, alone in a file) with which the authority binds the account to an account there.
    acme_eab_key_id: str | None = None
    acme_eab_key_file: Path | None = None
    # The CAs (PEM) trusted for the server's certificate; unset: the system's.
    acme_ca_file: Path | None = None
    # The address of enrolment and of late renewals, if public_rest_url leads to a proxy that ends TLS: devices trust
    # Culvert's CA alone.
    public_enrolment_url: Annotated[str, AfterValidator(_public_url)] | None = None

    @model_validator(mode="after")
    def _direct_beside_pooled(self) -> Self:
        if self.database_direct_url is not None and self.database_url is None:
            raise ValueError("database_direct_url goes with database_url")
        return self

    @model_validator(mode="after")
    def _public_certificate_is_whole(self) -> Self:
        if (self.public_certificate_file is None) != (self.public_key_file is None):
            raise ValueError("public_certificate_file and public_key_file go together")
        return self

    @model_validator(mode="after")
    def _acme_is_whole(self) -> Self:
        if (self.acme_eab_key_id is None) != (self.acme_eab_key_file is None):
            raise ValueError("acme_eab_key_id and acme_eab_key_file go together")
        if self.acme_directory is None:
            return self
        if self.public_certificate_file is not None:
            raise ValueError("acme_directory and public_certificate_file exclude each other")
        if "." not in self.public_name or re.fullmatch(r"[0-9.]+|.*:.*", self.public_name):
            raise ValueError("acme_directory needs a public_rest_url with a whole name, as vpn.corp.example")
        return self

    @model_validator(mode="after")
    def _oidc_is_whole(self) -> Self:
        if (
            len(
                {one is None for one in (self.oidc_issuer, self.oidc_client_id, self.oidc_client_secret_file)}
            )
            > 1
        ):
            raise ValueError("oidc_issuer, oidc_client_id and oidc_client_secret_file go together")
        if self.oidc_email_verified_by == "provider" and _OPEN_PROVIDERS.fullmatch(self.oidc_issuer or ""):
            raise ValueError(
                'oidc_email_verified_by = "provider" is not for a provider at which anybody may have an account'
            )
        return self

    @property
    def database_sessions_url(self) -> str | None:
        """The URL for LISTEN, migrations, dumps and dns-updater, which need sessions of the server itself."""
        given = self.database_direct_url or self.database_url
        return None if given is None else given.get_secret_value()

    @property
    def sessions_setting(self) -> str:
        return "database_url" if self.database_direct_url is None else "database_direct_url"

    @property
    def rest_url(self) -> str:
        return (self.public_rest_url or f"https://{self.rest_listen}").rstrip("/")

    @property
    def enrolment_url(self) -> str:
        return (self.public_enrolment_url or self.rest_url).rstrip("/")

    @property
    def shows_own_ca(self) -> bool:
        """Whether browsers get a certificate of the controller's own CA: no file, no ACME, no proxy that ends TLS."""
        return (self.public_certificate_file, self.acme_directory, self.public_enrolment_url) == (None,) * 3

    @property
    def public_name(self) -> str:
        """The name by which browsers know this controller."""
        return _host(urlsplit(self.rest_url).netloc)

    @property
    def agent_address(self) -> str:
        return self.public_agent_address or self.agent_listen

    @property
    def certificate_names(self) -> tuple[str, ...]:
        """Every name or address under which a client may reach this controller."""
        named = [*self.server_names, self.public_name, _host(urlsplit(self.enrolment_url).netloc)]
        named += [_host(address) for address in (self.agent_address, self.rest_listen, self.agent_listen)]
        return tuple(dict.fromkeys(name for name in named if name not in {"0.0.0.0", "::"}))  # noqa: S104

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # The TOML file's values are the arguments; the environment has precedence, then files of secrets.
        directory = os.environ.get("CULVERT_SECRETS_DIR") or os.environ.get("CREDENTIALS_DIRECTORY")
        files = SecretsSettingsSource(settings_cls, directory) if directory else file_secret_settings
        return env_settings, files, init_settings


def load(file: Path | None) -> Settings:
    """Without a file, set-up's is loaded, unless the environment has settings. `secrets` beside a file may have secrets.

    Raises ConfigurationError, whose text contains no values, because one may be a password.
    """
    if file is None and INSTALLED.exists() and not any(name.startswith("CULVERT_") for name in os.environ):
        file = INSTALLED
    try:
        if file is None:
            return Settings()
        secrets = file.parent / "secrets"
        given: dict[str, Any] = {"_secrets_dir": secrets} if os.access(secrets, os.X_OK) else {}
        return Settings(**given, **tomllib.loads(file.read_text()))
    except OSError as error:
        raise ConfigurationError(system_words(error)) from None
    except SettingsError as error:
        # A file of secrets cannot be read. The text names the setting and the kind of source, and no value.
        cause = error.__cause__ or error.__context__
        if isinstance(cause, OSError):
            words = f"{system_words(cause)}. The user {os.geteuid()} must be able to read it"
            raise ConfigurationError(words) from None
        raise ConfigurationError(str(error)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: {error}") from None
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        raise ConfigurationError("; ".join(faults)) from None


def system_words(error: OSError) -> str:
    """The operating system's text of the error, with the file, without the error number."""
    what = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {what}" if error.filename else what


def split_listen(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _host(address: str) -> str:
    host, separator, port = address.rpartition(":")
    return (host if separator and port.isdigit() else address).strip("[]")
