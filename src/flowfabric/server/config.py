"""The settings of the server: `FF_*` variables over an optional TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.core import Settings
from flowfabric.errors import ConfigError
from flowfabric.server.config_variables import (
    BY_NAME,
    FIXED,
    INTERVALS,
    SECRET_FIELDS,
    VARIABLES,
    field_of,
)

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ServerSettings(Struct, frozen=True, kw_only=True):
    """One field per variable of `VARIABLES`, without its prefix."""

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
        """Redacts secrets: logs and error reports print settings."""
        shown = structs.asdict(self)
        hidden = {name: "<REDACTED>" for name in SECRET_FIELDS if shown[name]}
        fields = (f"{name}={value!r}" for name, value in (shown | hidden).items())
        return f"ServerSettings({', '.join(fields)})"

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


def read_config_file(path: str) -> dict[str, str]:
    """Read a TOML file whose keys are the variables, with or without prefix, in any case."""
    try:
        given = tomllib.loads(Path(path).read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    found = {}
    for key, value in given.items():
        name = key.upper() if key.upper().startswith("FF_") else f"FF_{key.upper()}"
        if name not in BY_NAME:
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
    values: dict[str, Any] = {}
    for name, fixed in FIXED.items():
        if environ.get(name, "").strip() not in ("", str(fixed)):
            raise ConfigError(
                f"invalid value for {name}: only {fixed} is accepted, "
                f"got {environ[name]!r:.40}; remove the variable"
            )
    for variable in VARIABLES:
        text = environ.get(variable.name, (file or {}).get(variable.name, variable.default))
        try:
            values[field_of(variable.name)] = variable.parse(text)
        except Exception as error:
            raise ConfigError(f"invalid value for {variable.name}: {error}") from None
    intervals = {}
    for name, field in INTERVALS.items():
        every = values.pop(field_of(name))
        if every is not None:
            intervals[field] = every if name.endswith("_MS") else every * 1_000
    settings = ServerSettings(**values, intervals=intervals)
    if settings.backend == "postgres" and not settings.postgres_url:
        raise ConfigError("invalid value for FF_POSTGRES_URL: required with FF_BACKEND=postgres")
    if settings.backend == "sqlite" and not settings.dev_mode:
        raise ConfigError(
            "sqlite requires FF_DEV_MODE=1, because it serves one machine; "
            "set it, or use FF_BACKEND=postgres"
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
