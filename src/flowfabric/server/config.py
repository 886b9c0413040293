"""The server's settings: `FF_*` variables over an optional TOML file, each with what it means and what it accepts."""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from flowfabric.connect import is_postgres
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.core import Settings
from flowfabric.errors import ConfigError
from flowfabric.ids import BUDGET_PARTITIONS, FLOW_PARTITIONS, QUOTA_PARTITIONS, lane_id
from flowfabric.observe import sentry
from flowfabric.rules.waits.signing_keys import is_secret
from flowfabric.sdk.retention import age_ms
from flowfabric.server.auth import SHORTEST_TOKEN

log = logging.getLogger("flowfabric.server")

LOOPBACK = ("127.0.0.1", "::1", "localhost")
U16, U32, U64 = 2**16 - 1, 2**32 - 1, 2**64 - 1


class Variable(Struct, frozen=True):
    name: str
    default: str
    read: Callable[[str], Any]
    meaning: str
    secret: bool = False


def _field(name: str) -> str:
    return name.removeprefix("FF_").lower()


def _number(word: str, most: int, least: int = 0) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(f"expected {word}{' above zero' if least else ''}, got '{text:.40}'")
        return int(text)

    return read


def _flag(text: str) -> bool:
    return text == "1" or text.lower() == "true"


def _backend(text: str) -> str:
    word = text.lower() or "sqlite"
    if word not in ("sqlite", "postgres"):
        raise ValueError(f"expected sqlite or postgres, got '{text:.40}'")
    return word


def _postgres_url(text: str) -> str:
    if text and not is_postgres(text):
        raise ValueError(
            "expected postgresql://user@host/database; pairs such as host=... dbname=... are not a URL"
        )
    return text


def _secret(text: str) -> str:
    if not is_secret(text):
        raise ValueError(
            "expected 64 hexadecimal digits or more, in pairs, not all zero; make them with: openssl rand -hex 32"
        )
    return text


def _token(text: str) -> str:
    if text and len(text) < SHORTEST_TOKEN:
        raise ValueError(
            f"expected at least {SHORTEST_TOKEN} characters, got {len(text)}; make one with: openssl rand -hex 32"
        )
    return text


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > U16:
        raise ValueError(f"expected host:port, got '{text:.60}'")
    return host.strip("[]"), int(port)


def _lanes(text: str) -> list[str]:
    lanes = [lane for part in text.split(",") if (lane := part.strip())]
    if not lanes:
        raise ValueError("expected at least one lane, separated by commas")
    return [str(lane_id(lane)) for lane in lanes]


def _origins(text: str) -> list[str]:
    found = [origin for part in text.split(",") if (origin := part.strip())]
    good = [
        origin
        for origin in found
        if origin == "*" or (origin.isascii() and origin.isprintable() and " " not in origin)
    ]
    if found and not good:
        raise ValueError("none of the origins can be a header value")
    if len(good) < len(found):
        dropped = [origin for origin in found if origin not in good]
        log.warning(
            "FF_CORS_ORIGINS: %s cannot be a header value and are left out; kept: %s", dropped, good
        )
    return good


def _interval(text: str) -> int | None:
    return _number("u64", U64, 1)(text) if text else None


def _age(text: str) -> int:
    span = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else text
    try:
        return age_ms(span, "age")
    except ConfigError:
        raise ValueError(
            f"expected a span like 36h or 30d, or seconds, from 1s to 10 years, got '{text:.40}'"
        ) from None


_u32, _ms = _number("u32", U32, 1), _number("u64", U64)
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
    "FF_DEPENDENCY_RECONCILER_INTERVAL_S": "dependency_reconciler_ms",
    "FF_FLOW_PROJECTOR_INTERVAL_S": "flow_projector_ms",
    "FF_EXECUTION_DEADLINE_INTERVAL_S": "execution_deadline_ms",
    "FF_CANCEL_RECONCILER_INTERVAL_S": "cancel_reconciler_ms",
    "FF_EDGE_CANCEL_DISPATCHER_INTERVAL_S": "edge_cancel_dispatcher_ms",
    "FF_EDGE_CANCEL_RECONCILER_INTERVAL_S": "edge_cancel_reconciler_ms",
}
"""Variables of the background loops; without one, its loop keeps the interval that serves its store best."""

VARIABLES = (
    Variable(
        "FF_WAITPOINT_HMAC_SECRET",
        "",
        _secret,
        "signs the tokens of waitpoints and approval links; required",
        secret=True,
    ),
    Variable(
        "FF_WAITPOINT_HMAC_GRACE_MS",
        "86400000",
        _ms,
        "how long tokens of the former key stay good after a rotation",
    ),
    Variable("FF_BACKEND", "sqlite", _backend, "where everything is kept: sqlite or postgres"),
    Variable(
        "FF_POSTGRES_URL",
        "",
        _postgres_url,
        "postgresql://user@host/database; required with FF_BACKEND=postgres",
        secret=True,
    ),
    Variable("FF_POSTGRES_POOL_SIZE", "10", _u32, "connections for reading; writing has its own"),
    Variable("FF_SQLITE_PATH", ":memory:", str, "file of the SQLite database"),
    Variable("FF_SQLITE_POOL_SIZE", "4", _u32, "connections for reading"),
    Variable("FF_DEV_MODE", "0", _flag, "1 to run on SQLite, and without tokens on loopback"),
    Variable(
        "FF_RETENTION_COMPLETED",
        "24h",
        _age,
        "how long completed, cancelled and skipped executions are kept",
    ),
    Variable("FF_RETENTION_FAILED", "7d", _age, "how long failed and expired executions are kept"),
    Variable(
        "FF_LISTEN_ADDR",
        "127.0.0.1:9090",
        _address,
        "host:port to listen on; anything but loopback needs a token",
    ),
    Variable("FF_LANES", "default", _lanes, "lanes the server knows of, separated by commas"),
    Variable(
        "FF_CORS_ORIGINS",
        "",
        _origins,
        "origins whose pages may call the API; empty is none, * is all",
    ),
    Variable(
        "FF_API_TOKEN",
        "",
        _token,
        f"a token that may do everything; {SHORTEST_TOKEN} characters or more",
        secret=True,
    ),
    Variable(
        "FF_API_TOKENS_FILE",
        "",
        str,
        "TOML file of [[token]] entries: name, token, roles, namespace, lanes",
    ),
    Variable(
        "FF_MAX_CONCURRENT_STREAM_OPS",
        "64",
        _u32,
        "stream reads and tails at once; more are answered 429",
    ),
    Variable(
        "FF_MAX_CONNECTIONS",
        "1024",
        _u32,
        "connections at once; those without a valid token make room, then more get 503",
    ),
    Variable(
        "FF_MAX_CONNECTIONS_PER_ADDRESS",
        "64",
        _u32,
        "connections of one address without a valid token; for more, its oldest idle one is closed",
    ),
    Variable(
        "FF_SLOW_CLIENT_S",
        "20",
        _number("u32", 3_600, 1),
        "seconds in which a head, and then a body, has to arrive; who is slower is cut",
    ),
    Variable(
        "FF_DRAIN_S",
        "15",
        _number("u32", 3_600),
        "how long calls under way may take when the server stops",
    ),
    Variable(
        "FF_LEASE_EVENTS_RENEWALS",
        "1",
        _flag,
        "0 to write no lease event for a renewal; most of them are renewals",
    ),
    Variable(
        "FF_METRICS",
        "1",
        _flag,
        "0 to count nothing and have no /metrics; traces are not touched by it",
    ),
    Variable("FF_METRICS_OPEN", "0", _flag, "1 to show /metrics without a token; it names lanes"),
    Variable("FF_LOG", "info", str, "what is logged: a level, then name=level for single loggers"),
    Variable(
        sentry.DSN,
        "",
        sentry.dsn,
        "where Sentry is told of errors and crashes; empty is not at all",
        secret=True,
    ),
    Variable(sentry.ENVIRONMENT, sentry.PRODUCTION, str, "the environment that Sentry is told"),
    Variable(
        sentry.RELEASE,
        "",
        str,
        "the release that Sentry is told; empty is the version of FlowFabric",
    ),
    *(
        Variable(name, "", _interval, f"the longest the loop of {field[:-3]} sleeps")
        for name, field in INTERVALS.items()
    ),
)
FIXED = {
    "FF_FLOW_PARTITIONS": FLOW_PARTITIONS,
    "FF_BUDGET_PARTITIONS": BUDGET_PARTITIONS,
    "FF_QUOTA_PARTITIONS": QUOTA_PARTITIONS,
}
"""Settings of the original that have one value here. Another one would put its ids elsewhere."""
BY_NAME = {variable.name: variable for variable in VARIABLES}
_SECRETS = [_field(variable.name) for variable in VARIABLES if variable.secret]


class ServerSettings(Struct, frozen=True, kw_only=True):
    """The values of `VARIABLES`, without their prefix."""

    waitpoint_hmac_secret: str
    waitpoint_hmac_grace_ms: int
    backend: str
    postgres_url: str
    postgres_pool_size: int
    sqlite_path: str
    sqlite_pool_size: int
    dev_mode: bool
    retention_completed: int
    retention_failed: int
    listen_addr: tuple[str, int]
    lanes: list[str]
    cors_origins: list[str]
    api_token: str
    api_tokens_file: str
    max_concurrent_stream_ops: int
    max_connections: int
    max_connections_per_address: int
    slow_client_s: int
    drain_s: int
    lease_events_renewals: bool
    metrics: bool
    metrics_open: bool
    log: str
    sentry_dsn: str
    sentry_environment: str
    sentry_release: str
    intervals: dict[str, int]

    def __repr__(self) -> str:
        """Secrets are redacted: logs and error reports print settings."""
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        hidden = {name: "<REDACTED>" for name in _SECRETS if shown[name]}
        return f"ServerSettings({', '.join(f'{name}={value!r}' for name, value in (shown | hidden).items())})"

    @property
    def store_url(self) -> str:
        return self.postgres_url if self.backend == "postgres" else f"sqlite:///{self.sqlite_path}"

    @property
    def is_loopback(self) -> bool:
        return self.listen_addr[0] in LOOPBACK

    @property
    def engine(self) -> Settings:
        return Settings(
            retention_completed_ms=self.retention_completed,
            retention_failed_ms=self.retention_failed,
            renewal_events=self.lease_events_renewals,
        )

    def loops(self, defaults: LoopSettings) -> LoopSettings:
        return structs.replace(defaults, **self.intervals)


def read_file(path: str) -> dict[str, str]:
    """A TOML file with the variables as keys, with or without their prefix, in any case."""
    try:
        given = tomllib.loads(Path(path).read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    found = {}
    for key, value in given.items():
        name = key.upper() if key.upper().startswith("FF_") else f"FF_{key.upper()}"
        if name not in BY_NAME:
            raise ConfigError(
                f"{path}: {key}: no such setting; flowfabric server --check-config lists them"
            )
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            value = ",".join(value)
        if not isinstance(value, str | int | bool):
            raise ConfigError(f"{path}: {key}: a text, a number or true and false")
        found[name] = str(int(value)) if isinstance(value, bool) else str(value)
    return found


def settings_of(
    environ: Mapping[str, str], file: Mapping[str, str] | None = None
) -> ServerSettings:
    """The environment wins over the file. Any value that cannot be used stops the start and names its variable."""
    values: dict[str, Any] = {}
    for name, fixed in FIXED.items():
        if environ.get(name, "").strip() not in ("", str(fixed)):
            raise ConfigError(
                f"invalid value for {name}: {fixed} is the only one here, got {environ[name]!r:.40}; leave it out"
            )
    for variable in VARIABLES:
        text = environ.get(variable.name, (file or {}).get(variable.name, variable.default))
        try:
            values[_field(variable.name)] = variable.read(text)
        except Exception as error:
            raise ConfigError(f"invalid value for {variable.name}: {error}") from None
    intervals = {}
    for name, field in INTERVALS.items():
        every = values.pop(_field(name))
        if every is not None:
            intervals[field] = every if name.endswith("_MS") else every * 1_000
    settings = ServerSettings(**values, intervals=intervals)
    if settings.backend == "postgres" and not settings.postgres_url:
        raise ConfigError("invalid value for FF_POSTGRES_URL: required with FF_BACKEND=postgres")
    if settings.backend == "sqlite" and not settings.dev_mode:
        raise ConfigError(
            "sqlite requires FF_DEV_MODE=1: it is for one machine; set it, or use FF_BACKEND=postgres"
        )
    if not (settings.api_token or settings.api_tokens_file) and not (
        settings.dev_mode and settings.is_loopback
    ):
        raise ConfigError(
            "invalid value for FF_API_TOKEN: required, unless FF_DEV_MODE=1 and FF_LISTEN_ADDR is on loopback; "
            "make one with: openssl rand -hex 32"
        )
    return settings


def explained(
    environ: Mapping[str, str], file: Mapping[str, str] | None = None
) -> list[tuple[str, str, str, str]]:
    """Of each variable: its name, its value as used, where that comes from, and what it means. Secrets are not shown."""
    lines = []
    for variable in VARIABLES:
        source = (
            "environment"
            if variable.name in environ
            else "file"
            if variable.name in (file or {})
            else "default"
        )
        text = environ.get(variable.name, (file or {}).get(variable.name, variable.default))
        shown = ("(set)" if text else "(not set)") if variable.secret else text or "(empty)"
        lines.append((variable.name, shown, source, variable.meaning))
    return lines
