"""The table of settings: each `FF_*` variable with its default, its parser and its meaning."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from flowfabric.ids import BUDGET_PARTITIONS, FLOW_PARTITIONS, QUOTA_PARTITIONS
from flowfabric.observe import sentry
from flowfabric.server import config_values as values
from flowfabric.server.auth import MIN_TOKEN_LENGTH


class Variable(Struct, frozen=True):
    name: str
    default: str
    parse: Callable[[str], object]
    meaning: str
    secret: bool = False


def field_of(name: str) -> str:
    """The field of `ServerSettings` that a variable sets."""
    return name.removeprefix("FF_").lower()


_u32, _ms = values.number("u32", values.U32, 1), values.number("u64", values.U64)
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
    "FF_DEPENDENCY_RECONCILER_INTERVAL_S": "dependency_reconciler_ms",
    "FF_FLOW_PROJECTOR_INTERVAL_S": "flow_projector_ms",
    "FF_EXECUTION_DEADLINE_INTERVAL_S": "execution_deadline_ms",
    "FF_CANCEL_RECONCILER_INTERVAL_S": "cancel_reconciler_ms",
    "FF_EDGE_CANCEL_DISPATCHER_INTERVAL_S": "edge_cancel_dispatcher_ms",
    "FF_EDGE_CANCEL_RECONCILER_INTERVAL_S": "edge_cancel_reconciler_ms",
}
"""The interval of each background loop. Unset: the default of the store."""

VARIABLES = (
    Variable(
        "FF_WAITPOINT_HMAC_SECRET",
        "",
        values.secret,
        "signs the tokens of waitpoints and approval links; required",
        secret=True,
    ),
    Variable(
        "FF_WAITPOINT_HMAC_GRACE_MS",
        "86400000",
        _ms,
        "how long tokens of the previous key stay valid after a rotation",
    ),
    Variable("FF_BACKEND", "sqlite", values.backend, "the database: sqlite or postgres"),
    Variable(
        "FF_POSTGRES_URL",
        "",
        values.postgres_url,
        "postgresql://user@host/database; required with FF_BACKEND=postgres",
        secret=True,
    ),
    Variable("FF_POSTGRES_POOL_SIZE", "10", _u32, "connections for reads; writes have their own"),
    Variable("FF_SQLITE_PATH", ":memory:", str, "file of the SQLite database"),
    Variable("FF_SQLITE_POOL_SIZE", "4", _u32, "connections for reads"),
    Variable("FF_DEV_MODE", "0", values.flag, "1 allows SQLite, and no tokens on loopback"),
    Variable(
        "FF_RETENTION_COMPLETED",
        "24h",
        values.age,
        "how long completed, cancelled and skipped executions are kept",
    ),
    Variable(
        "FF_RETENTION_FAILED", "7d", values.age, "how long failed and expired executions are kept"
    ),
    Variable(
        "FF_LISTEN_ADDR",
        "127.0.0.1:9090",
        values.address,
        "host:port to listen on; any address but loopback needs a token",
    ),
    Variable(
        "FF_LANES", "default", values.lanes, "lanes that /v1/config lists, separated by commas"
    ),
    Variable(
        "FF_CORS_ORIGINS",
        "",
        values.origins,
        "origins whose pages may call the API; empty: none, *: all",
    ),
    Variable(
        "FF_API_TOKEN",
        "",
        values.token,
        f"a token with every role; {MIN_TOKEN_LENGTH} characters or more",
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
        "concurrent stream reads and tails; more are answered 429",
    ),
    Variable(
        "FF_MAX_CONNECTIONS",
        "1024",
        _u32,
        "concurrent connections; above it, one without a valid token is closed, else 503",
    ),
    Variable(
        "FF_MAX_CONNECTIONS_PER_ADDRESS",
        "64",
        _u32,
        "connections of one address without a valid token; above it, the oldest idle one is closed",
    ),
    Variable(
        "FF_SLOW_CLIENT_S",
        "20",
        values.number("u32", 3_600, 1),
        "seconds in which the head, and then the body, of a request must arrive",
    ),
    Variable(
        "FF_DRAIN_S",
        "15",
        values.number("u32", 3_600),
        "seconds that running requests may take when the server stops",
    ),
    Variable(
        "FF_LEASE_EVENTS_RENEWALS",
        "1",
        values.flag,
        "0 writes no lease event for a renewal; most lease events are renewals",
    ),
    Variable(
        "FF_METRICS", "1", values.flag, "0 disables metrics and /metrics; traces are not affected"
    ),
    Variable(
        "FF_METRICS_OPEN", "0", values.flag, "1 serves /metrics without a token; it names lanes"
    ),
    Variable("FF_LOG", "info", str, "log level, then name=level for single loggers"),
    Variable(
        sentry.DSN,
        "",
        sentry.parse_dsn,
        "the Sentry project that receives errors and crashes; empty: none",
        secret=True,
    ),
    Variable(sentry.ENVIRONMENT, sentry.PRODUCTION, str, "the environment reported to Sentry"),
    Variable(
        sentry.RELEASE, "", str, "the release reported to Sentry; empty: the version of FlowFabric"
    ),
    *(
        Variable(name, "", values.interval, f"longest sleep of the loop {field[:-3]}")
        for name, field in INTERVALS.items()
    ),
)
FIXED = {
    "FF_FLOW_PARTITIONS": FLOW_PARTITIONS,
    "FF_BUDGET_PARTITIONS": BUDGET_PARTITIONS,
    "FF_QUOTA_PARTITIONS": QUOTA_PARTITIONS,
}
"""Settings of the original with one accepted value: another would move ids to other partitions."""
BY_NAME = {variable.name: variable for variable in VARIABLES}
SECRET_FIELDS = [field_of(variable.name) for variable in VARIABLES if variable.secret]
