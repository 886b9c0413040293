"""The settings of the server: `FF_*` variables over an optional TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from msgspec import Struct, structs

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.core import LeaseEvents, Settings
from flowfabric.errors import ConfigError
from flowfabric.ids import BUDGET_PARTITIONS, FLOW_PARTITIONS, QUOTA_PARTITIONS
from flowfabric.observe import sentry
from flowfabric.server import config_values as values
from flowfabric.server.auth import MIN_TOKEN_LENGTH

LOOPBACK = ("127.0.0.1", "::1", "localhost")
_u32, _ms = values.number("u32", values.U32, 1), values.number("u64", values.U64)


class Variable(Struct, frozen=True):
    default: str
    parse: Callable[[str], object]
    secret: bool = False
    name: str = ""
    meaning: str = ""


class ServerSettings(Struct, frozen=True, kw_only=True):
    """One field per variable `FF_<FIELD>`; `_MEANINGS` describes them."""

    waitpoint_hmac_secret: Annotated[str, Variable("", values.secret, secret=True)]
    waitpoint_hmac_grace_ms: Annotated[int, Variable("86400000", _ms)]
    backend: Annotated[str, Variable("sqlite", values.backend)]
    postgres_url: Annotated[str, Variable("", values.postgres_url, secret=True)]
    postgres_pool_size: Annotated[int, Variable("10", _u32)]
    valkey_url: Annotated[str, Variable("", values.valkey_url, secret=True)]
    host: Annotated[str, Variable("localhost", values.host)]
    port: Annotated[int, Variable("6379", values.number("u16", 65_535, 1))]
    tls: Annotated[bool, Variable("0", values.flag)]
    cluster: Annotated[bool, Variable("0", values.flag)]
    durability: Annotated[str, Variable("", values.durability)]
    sqlite_path: Annotated[str, Variable(":memory:", str)]
    sqlite_pool_size: Annotated[int, Variable("4", _u32)]
    dev_mode: Annotated[bool, Variable("0", values.flag)]
    retention_completed: Annotated[int, Variable("24h", values.age)]
    retention_failed: Annotated[int, Variable("7d", values.age)]
    listen_addr: Annotated[tuple[str, int], Variable("127.0.0.1:9090", values.address)]
    lanes: Annotated[list[str], Variable("default", values.lanes)]
    cors_origins: Annotated[list[str], Variable("", values.origins)]
    api_token: Annotated[str, Variable("", values.token, secret=True)]
    api_tokens_file: Annotated[str, Variable("", str)]
    max_concurrent_stream_ops: Annotated[int, Variable("64", _u32)]
    max_connections: Annotated[int, Variable("1024", _u32)]
    max_connections_per_address: Annotated[int, Variable("64", _u32)]
    slow_client_s: Annotated[int, Variable("20", values.number("u32", 3_600, 1))]
    drain_s: Annotated[int, Variable("15", values.number("u32", 3_600))]
    lease_events: Annotated[LeaseEvents, Variable("all", values.lease_events)]
    metrics: Annotated[bool, Variable("1", values.flag)]
    metrics_open: Annotated[bool, Variable("0", values.flag)]
    log: Annotated[str, Variable("info", str)]
    sentry_dsn: Annotated[str, Variable("", sentry.parse_dsn, secret=True)]
    sentry_environment: Annotated[str, Variable(sentry.PRODUCTION, str)]
    sentry_release: Annotated[str, Variable("", str)]
    intervals: dict[str, int]

    def __repr__(self) -> str:
        """Redacts secrets: logs and error reports print settings."""
        shown = structs.asdict(self)
        secrets = (_field(variable.name) for variable in VARIABLES if variable.secret)
        hidden = {name: "<REDACTED>" for name in secrets if shown[name]}
        fields = (f"{name}={value!r}" for name, value in (shown | hidden).items())
        return f"ServerSettings({', '.join(fields)})"

    @property
    def store_url(self) -> str:
        match self.backend:
            case "postgres":
                return self.postgres_url
            case "valkey":
                return self.valkey_url or self._valkey_parts
        return f"sqlite:///{self.sqlite_path}"

    @property
    def _valkey_parts(self) -> str:
        scheme, query = "valkeys" if self.tls else "valkey", "?cluster=1" if self.cluster else ""
        return f"{scheme}://{self.host}:{self.port}/default{query}"

    @property
    def is_loopback(self) -> bool:
        return self.listen_addr[0] in LOOPBACK

    @property
    def engine(self) -> Settings:
        return Settings(
            retention_completed_ms=self.retention_completed,
            retention_failed_ms=self.retention_failed,
            lease_events=self.lease_events,
        )

    def loops(self, defaults: LoopSettings) -> LoopSettings:
        return structs.replace(defaults, **self.intervals)


INTERVALS = {
    "FF_LEASE_EXPIRY_INTERVAL_MS": "lease_expiry_ms",
    "FF_DELAYED_PROMOTER_INTERVAL_MS": "delayed_promoter_ms",
    "FF_ATTEMPT_TIMEOUT_INTERVAL_S": "attempt_timeout_ms",
    "FF_SUSPENSION_TIMEOUT_INTERVAL_S": "suspension_timeout_ms",
    "FF_PENDING_WP_EXPIRY_INTERVAL_S": "pending_waitpoint_ms",
    "FF_RETENTION_TRIMMER_INTERVAL_S": "retention_ms",
    "FF_BUDGET_RESET_INTERVAL_S": "budget_reset_ms",
    "FF_BUDGET_RECONCILER_INTERVAL_S": "budget_reconciler_ms",
    "FF_QUOTA_RECONCILER_INTERVAL_S": "quota_reconciler_ms",
    "FF_UNBLOCK_INTERVAL_S": "unblock_ms",
    "FF_STORE_MAINTENANCE_INTERVAL_S": "store_maintenance_ms",
    "FF_BULK_ACTIONS_INTERVAL_S": "bulk_actions_ms",
    "FF_DEPENDENCY_RECONCILER_INTERVAL_S": "dependency_reconciler_ms",
    "FF_FLOW_PROJECTOR_INTERVAL_S": "flow_projector_ms",
    "FF_EXECUTION_DEADLINE_INTERVAL_S": "execution_deadline_ms",
    "FF_CANCEL_RECONCILER_INTERVAL_S": "cancel_reconciler_ms",
    "FF_EDGE_CANCEL_DISPATCHER_INTERVAL_S": "edge_cancel_dispatcher_ms",
    "FF_EDGE_CANCEL_RECONCILER_INTERVAL_S": "edge_cancel_reconciler_ms",
}
"""The interval of each background loop. Unset: the default of the store."""


_MEANINGS = {
    "waitpoint_hmac_secret": "signs the tokens of waitpoints and approval links; required",
    "waitpoint_hmac_grace_ms": "how long tokens of the previous key stay valid after a rotation",
    "backend": "the database: sqlite, postgres or valkey",
    "postgres_url": "postgresql://user@host/database; required with FF_BACKEND=postgres",
    "postgres_pool_size": "connections for reads; writes have their own",
    "valkey_url": "valkey://host:6379/CELL; unset: FF_HOST, FF_PORT, FF_TLS and FF_CLUSTER",
    "host": "the host of Valkey, where FF_VALKEY_URL is not set",
    "port": "its port",
    "tls": "1 for TLS",
    "cluster": "1 for a cluster",
    "durability": (
        "replicated: Valkey answers when a replica has a commit in its append file; "
        "empty: as the URL says"
    ),
    "sqlite_path": "file of the SQLite database",
    "sqlite_pool_size": "connections for reads",
    "dev_mode": "1 allows SQLite, and no tokens on loopback",
    "retention_completed": "how long completed, cancelled and skipped executions are kept",
    "retention_failed": "how long failed and expired executions are kept",
    "listen_addr": "host:port to listen on; any address but loopback needs a token",
    "lanes": "lanes that /v1/config lists, separated by commas",
    "cors_origins": "origins whose pages may call the API; empty: none, *: all",
    "api_token": f"a token with every role; {MIN_TOKEN_LENGTH} characters or more",
    "api_tokens_file": "TOML file of [[token]] entries: name, token, roles, namespace, lanes",
    "max_concurrent_stream_ops": "concurrent stream reads and tails; more are answered 429",
    "max_connections": (
        "concurrent connections; above it, one without a valid token is closed, else 503"
    ),
    "max_connections_per_address": (
        "connections of one address without a valid token; above it, the oldest idle one is closed"
    ),
    "slow_client_s": "seconds in which the head, and then the body, of a request must arrive",
    "drain_s": "seconds that running requests may take when the server stops",
    "lease_events": "all, transitions (no event for a renewal), or off (no lease event at all)",
    "metrics": "0 disables metrics and /metrics; traces are not affected",
    "metrics_open": "1 serves /metrics without a token; it names lanes",
    "log": "log level, then name=level for single loggers",
    "sentry_dsn": "the Sentry project that receives errors and crashes; empty: none",
    "sentry_environment": "the environment reported to Sentry",
    "sentry_release": "the release reported to Sentry; empty: the version of FlowFabric",
}


def _variables() -> tuple[Variable, ...]:
    hints = get_type_hints(ServerSettings, include_extras=True)
    fields = [
        structs.replace(hints[field].__metadata__[0], name=f"FF_{field.upper()}", meaning=meaning)
        for field, meaning in _MEANINGS.items()
    ]
    loops = [
        Variable("", values.interval, name=name, meaning=f"longest sleep of the loop {field[:-3]}")
        for name, field in INTERVALS.items()
    ]
    return (*fields, *loops)


VARIABLES = _variables()
FIXED = {
    "FF_FLOW_PARTITIONS": FLOW_PARTITIONS,
    "FF_BUDGET_PARTITIONS": BUDGET_PARTITIONS,
    "FF_QUOTA_PARTITIONS": QUOTA_PARTITIONS,
}
"""Settings of the original with one accepted value: another would move ids to other partitions."""


def read_config_file(path: str) -> dict[str, str]:
    """Read a TOML file whose keys are the variables, with or without prefix, in any case."""
    try:
        given = tomllib.loads(Path(path).read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    found = {}
    for key, value in given.items():
        name = key.upper() if key.upper().startswith("FF_") else f"FF_{key.upper()}"
        if not any(name == variable.name for variable in VARIABLES):
            raise ConfigError(
                f"{path}: {key}: unknown setting; flowfabric server --check-config lists them"
            )
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            value = ",".join(value)
        if not isinstance(value, str | int | bool):
            raise ConfigError(f"{path}: {key}: expected a string, a number, or true or false")
        found[name] = str(int(value)) if isinstance(value, bool) else str(value)
    return found


def load_settings(
    environ: Mapping[str, str], file: Mapping[str, str] | None = None
) -> ServerSettings:
    """Parse all variables; the environment overrides the file."""
    settings: dict[str, Any] = {}
    for name, fixed in FIXED.items():
        if environ.get(name, "").strip() not in ("", str(fixed)):
            raise ConfigError(
                f"invalid value for {name}: only {fixed} is accepted, "
                f"got {environ[name]!r:.40}; remove the variable"
            )
    for variable in VARIABLES:
        text, _ = _text(variable, environ, file)
        try:
            settings[_field(variable.name)] = variable.parse(text)
        except Exception as error:
            raise ConfigError(f"invalid value for {variable.name}: {error}") from None
    intervals = {}
    for name, field in INTERVALS.items():
        every = settings.pop(_field(name))
        if every is not None:
            intervals[field] = every if name.endswith("_MS") else every * 1_000
    return _checked(ServerSettings(**settings, intervals=intervals))


def _checked(settings: ServerSettings) -> ServerSettings:
    if settings.backend == "postgres" and not settings.postgres_url:
        raise ConfigError("invalid value for FF_POSTGRES_URL: required with FF_BACKEND=postgres")
    if settings.backend == "sqlite" and not settings.dev_mode:
        raise ConfigError(
            "sqlite requires FF_DEV_MODE=1, because it serves one machine; "
            "set it, or use FF_BACKEND=postgres or FF_BACKEND=valkey"
        )
    if not (settings.api_token or settings.api_tokens_file) and not (
        settings.dev_mode and settings.is_loopback
    ):
        raise ConfigError(
            "invalid value for FF_API_TOKEN: required, unless FF_DEV_MODE=1 and FF_LISTEN_ADDR "
            "is on loopback; create one with: openssl rand -hex 32"
        )
    return settings


def describe_settings(
    environ: Mapping[str, str], file: Mapping[str, str] | None = None
) -> list[tuple[str, str, str, str]]:
    """Name, value, source and meaning of each variable. Secrets are hidden."""
    lines = []
    for variable in VARIABLES:
        text, source = _text(variable, environ, file)
        shown = ("(set)" if text else "(not set)") if variable.secret else text or "(empty)"
        lines.append((variable.name, shown, source, variable.meaning))
    return lines


def _text(
    variable: Variable, environ: Mapping[str, str], file: Mapping[str, str] | None
) -> tuple[str, str]:
    """The text of a variable and its source."""
    sources = {"environment": environ, "file": file or {}}
    given = ((of[variable.name], source) for source, of in sources.items() if variable.name in of)
    return next(given, (variable.default, "default"))


def _field(name: str) -> str:
    return name.removeprefix("FF_").lower()
