"""Settings of the server: defaults, accepted values and errors of every variable."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from flowfabric.engine.background import LoopSettings
from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CancelExecutionArgs, CreateExecutionArgs
from flowfabric.server.config import (
    INTERVALS,
    VARIABLES,
    describe_settings,
    load_settings,
    read_config_file,
)
from flowfabric.server.lifecycle import open_engine
from tests.patience import patient

LEAST = {"FF_WAITPOINT_HMAC_SECRET": "ab" * 32, "FF_DEV_MODE": "1"}
PG = {"FF_BACKEND": "postgres", "FF_POSTGRES_URL": "postgresql://u@h/d", "FF_API_TOKEN": "t" * 20}
U32 = ["0", "-1", "x", "", "1.5", "4294967296", "\u0661"]
NO_AGES = ["", "0", "0s", "999ms", "-1", "-1h", "soon", "1.5", "3651d", "315360001", "9" * 5_000]
Row = tuple[Any, list[tuple[str, Any]], list[str]]

TABLE: dict[str, Row] = {
    "FF_WAITPOINT_HMAC_SECRET": (
        "ab" * 32,
        [("00" * 31 + "01", "00" * 31 + "01"), ("AbCd" * 20, "AbCd" * 20)],
        ["", "00" * 32, "0" * 100, "ab" * 31, "a" * 65, "zz" * 32],
    ),
    "FF_WAITPOINT_HMAC_GRACE_MS": (86_400_000, [("0", 0), ("1", 1)], ["-1", "x", "", str(2**64)]),
    "FF_BACKEND": ("sqlite", [("SQLite", "sqlite"), ("", "sqlite")], ["redis", "mysql"]),
    "FF_POSTGRES_URL": (
        "",
        [
            ("postgresql://u@h/d", "postgresql://u@h/d"),
            ("postgres://u@h/d", "postgres://u@h/d"),
            ("", ""),
        ],
        ["host=h dbname=d", "u@h/d", "ff.db", "sqlite:///ff.db", "https://h/d"],
    ),
    "FF_POSTGRES_POOL_SIZE": (10, [("1", 1), ("4294967295", 4_294_967_295)], U32),
    "FF_VALKEY_URL": (
        "",
        [("valkey://h/jobs", "valkey://h/jobs"), ("valkeys://h:1/a", "valkeys://h:1/a"), ("", "")],
        ["redis://h/0", "h:6379", "postgresql://h/d"],
    ),
    "FF_HOST": ("localhost", [("h.example", "h.example"), ("10.0.0.1", "10.0.0.1")], ["", "a b"]),
    "FF_PORT": (6_379, [("1", 1), ("65535", 65_535)], ["0", "65536", "x", ""]),
    "FF_TLS": (False, [("1", True), ("0", False)], []),
    "FF_CLUSTER": (False, [("1", True), ("0", False)], []),
    "FF_DURABILITY": (
        "",
        [("server", "server"), ("replicated", "replicated")],
        ["always", "Replicated"],
    ),
    "FF_SQLITE_PATH": (":memory:", [("ff.db", "ff.db")], []),
    "FF_SQLITE_POOL_SIZE": (4, [("1", 1)], U32),
    "FF_DEV_MODE": (True, [("1", True), ("TRUE", True)], []),
    "FF_RETENTION_COMPLETED": (
        86_400_000,
        [("36h", 129_600_000), ("90", 90_000), ("3650d", 315_360_000_000)],
        NO_AGES,
    ),
    "FF_RETENTION_FAILED": (
        604_800_000,
        [("30d", 2_592_000_000), ("1", 1_000), ("1h 30m", 5_400_000)],
        NO_AGES,
    ),
    "FF_LISTEN_ADDR": (
        ("127.0.0.1", 9090),
        [("localhost:0", ("localhost", 0)), ("[::1]:80", ("::1", 80))],
        ["", "x", ":80", "h:", "h:x", "h:65536", "h:-1"],
    ),
    "FF_LANES": (["default"], [("a, b,,c", ["a", "b", "c"])], ["", ",", "\u00e9", "x" * 65]),
    "FF_CORS_ORIGINS": (
        [],
        [("*", ["*"]), ("https://a, https://b", ["https://a", "https://b"])],
        ["\u00e9", "a b,c d"],
    ),
    "FF_API_TOKEN": ("", [("", ""), ("x" * 16, "x" * 16)], ["x", "x" * 15]),
    "FF_API_TOKENS_FILE": ("", [("t.toml", "t.toml")], []),
    "FF_MAX_CONCURRENT_STREAM_OPS": (64, [("1", 1)], U32),
    "FF_MAX_CONNECTIONS": (1_024, [("1", 1)], U32),
    "FF_MAX_CONNECTIONS_PER_ADDRESS": (64, [("1", 1)], U32),
    "FF_SLOW_CLIENT_S": (20, [("1", 1), ("3600", 3_600)], ["0", "3601", "x", ""]),
    "FF_DRAIN_S": (15, [("0", 0)], ["-1", "3601", "x"]),
    "FF_LEASE_EVENTS": ("all", [("transitions", "transitions"), ("off", "off")], ["", "0", "ALL"]),
    "FF_METRICS": (True, [("0", False), ("true", True)], []),
    "FF_METRICS_OPEN": (False, [("1", True), ("0", False)], []),
    "FF_LOG": ("info", [("debug", "debug")], []),
    "FF_SENTRY_DSN": (
        "",
        [("", ""), ("https://key@host/1", "https://key@host/1")],
        ["x", "https://host/1", "https://key@host/"],
    ),
    "FF_SENTRY_ENVIRONMENT": ("production", [("tests", "tests")], []),
    "FF_SENTRY_RELEASE": ("", [("1.2", "1.2")], []),
}
GOOD = [(name, text, value) for name, row in TABLE.items() for text, value in row[1]]
BAD = [(name, text) for name, row in TABLE.items() for text in row[2]] + [
    (name, text) for name in INTERVALS for text in ("0", "x", "-1")
]


def test_every_variable_has_a_row() -> None:
    assert [variable.name for variable in VARIABLES] == [*TABLE, *INTERVALS]
    assert all(variable.meaning for variable in VARIABLES)


def _field(name: str) -> str:
    return name.removeprefix("FF_").lower()


@pytest.mark.parametrize(("name", "value"), [(name, row[0]) for name, row in TABLE.items()])
def test_defaults(name: str, value: Any) -> None:
    assert getattr(load_settings(LEAST), _field(name)) == value


@pytest.mark.parametrize(("name", "text", "value"), GOOD)
def test_accepted_values(name: str, text: str, value: Any) -> None:
    assert getattr(load_settings({**LEAST, name: text}), _field(name)) == value
    assert (
        getattr(
            load_settings(LEAST if name not in LEAST else {**LEAST, name: text}, {name: text}),
            _field(name),
        )
        == value
    )


@pytest.mark.parametrize(("name", "text"), BAD)
def test_anything_else_stops_the_start_and_names_it(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"^invalid value for {name}: ."):
        load_settings({**LEAST, name: text})


@pytest.mark.parametrize("name", INTERVALS)
def test_intervals_of_the_loops(name: str) -> None:
    assert load_settings(LEAST).intervals == {}
    loops = load_settings({**LEAST, name: "7"}).loops(LoopSettings())
    assert getattr(loops, INTERVALS[name]) == (7 if name.endswith("_MS") else 7_000)


def test_the_secret_is_required() -> None:
    with pytest.raises(ConfigError, match="FF_WAITPOINT_HMAC_SECRET"):
        load_settings({"FF_DEV_MODE": "1"})


def test_a_bad_secret_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings({"FF_WAITPOINT_HMAC_SECRET": "hunter2", "FF_DEV_MODE": "1"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "0.0.0.0:0"])
def test_a_short_token_is_refused_with_the_remedy_and_not_shown(listen: str) -> None:
    with pytest.raises(
        ConfigError, match="at least 16 characters, got 7; create one with: openssl rand -hex 32"
    ) as caught:
        load_settings({**LEAST, "FF_LISTEN_ADDR": listen, "FF_API_TOKEN": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_settings_print_no_secret() -> None:
    hidden = {
        "FF_API_TOKEN": "hunter2" * 3,
        "FF_POSTGRES_URL": "postgresql://u:hunter2@h/d",
        "FF_SENTRY_DSN": "https://hunter2@h/1",
    }
    settings = load_settings({**LEAST, **hidden})
    for shown in (repr(settings), str(settings), f"{settings}"):
        assert "hunter2" not in shown and "ab" * 32 not in shown
        assert "api_token='<REDACTED>'" in shown and "drain_s=15" in shown
    assert "api_token=''" in repr(load_settings(LEAST))


def test_invalid_origins_are_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert load_settings({**LEAST, "FF_CORS_ORIGINS": "https://a,b c"}).cors_origins == [
        "https://a"
    ]
    (record,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert (vars(record)["ignored"], vars(record)["kept"]) == (["b c"], ["https://a"])


# ---- what goes together


def test_postgres_requires_a_url_and_sqlite_requires_dev_mode() -> None:
    with pytest.raises(ConfigError, match="FF_POSTGRES_URL: required"):
        load_settings({**LEAST, "FF_BACKEND": "postgres"})
    with pytest.raises(ConfigError, match=r"^sqlite requires FF_DEV_MODE=1, "):
        load_settings({**LEAST, "FF_DEV_MODE": "0"})
    assert load_settings({**LEAST, **PG, "FF_DEV_MODE": "0"}).store_url == PG["FF_POSTGRES_URL"]
    assert load_settings({**LEAST, "FF_SQLITE_PATH": "ff.db"}).store_url == "sqlite:///ff.db"


def test_a_cell_of_valkey_is_named_by_its_url_or_by_its_parts() -> None:
    given = {**LEAST, "FF_BACKEND": "valkey"}
    assert load_settings(given).store_url == "valkey://localhost:6379/default"
    parts = {"FF_HOST": "h", "FF_PORT": "7000", "FF_TLS": "1", "FF_CLUSTER": "1"}
    assert load_settings({**given, **parts}).store_url == "valkeys://h:7000/default?cluster=1"
    url = {"FF_VALKEY_URL": "valkey://u:p@h/jobs"}
    assert load_settings({**given, **parts, **url}).store_url == "valkey://u:p@h/jobs"
    assert "u:p" not in repr(load_settings({**given, **url}))


def test_an_invalid_postgres_url_is_refused_and_not_shown() -> None:
    with pytest.raises(
        ConfigError, match=r"^invalid value for FF_POSTGRES_URL: expected postgresql://"
    ) as caught:
        load_settings({**LEAST, **PG, "FF_POSTGRES_URL": "host=h password=hunter2"})
    assert "hunter2" not in str(caught.value) and "sqlite" not in str(caught.value).lower()


@pytest.mark.parametrize(
    ("name", "count"),
    [("FF_FLOW_PARTITIONS", "256"), ("FF_BUDGET_PARTITIONS", "32"), ("FF_QUOTA_PARTITIONS", "32")],
)
def test_partition_counts_are_fixed(name: str, count: str) -> None:
    assert (
        load_settings({**LEAST, name: count})
        == load_settings({**LEAST, name: ""})
        == load_settings(LEAST)
    )
    for other in ("1", "64", "x", "-1"):
        with pytest.raises(
            ConfigError, match=f"^invalid value for {name}: only {count} is accepted"
        ):
            load_settings({**LEAST, name: other})


@pytest.mark.parametrize(
    ("changes", "may_start"),
    [
        ({}, True),
        ({"FF_LISTEN_ADDR": "[::1]:80"}, True),
        ({"FF_LISTEN_ADDR": "localhost:80"}, True),
        ({"FF_LISTEN_ADDR": "0.0.0.0:80"}, False),
        ({"FF_LISTEN_ADDR": "[::]:80"}, False),
        ({"FF_LISTEN_ADDR": "192.168.1.1:80"}, False),
        ({"FF_LISTEN_ADDR": "127.0.0.1.evil:80"}, False),
        ({"FF_LISTEN_ADDR": "0.0.0.0:80", "FF_API_TOKEN": "t" * 16}, True),
        ({"FF_LISTEN_ADDR": "0.0.0.0:80", "FF_API_TOKENS_FILE": "t"}, True),
        ({**PG, "FF_DEV_MODE": "0"}, True),
        ({**PG, "FF_API_TOKEN": ""}, True),
        ({**PG, "FF_API_TOKEN": "", "FF_DEV_MODE": "0"}, False),
    ],
)
def test_open_only_to_this_machine_and_only_in_development(
    changes: dict[str, str], may_start: bool
) -> None:
    if may_start:
        load_settings({**LEAST, **changes})
    else:
        with pytest.raises(ConfigError, match="FF_API_TOKEN: required"):
            load_settings({**LEAST, **changes})


# ---- a file


def test_a_file_and_the_environment_over_it(tmp_path: Path) -> None:
    path = tmp_path / "ff.toml"
    path.write_text(
        'lanes = ["a", "b"]\nFF_DRAIN_S = 3\ndev_mode = true\nMetrics = false\nmax_connections = '
        "7\n"
    )
    file = read_config_file(str(path))
    found = load_settings({"FF_WAITPOINT_HMAC_SECRET": "ab" * 32, "FF_DRAIN_S": "4"}, file)
    assert (found.lanes, found.drain_s, found.dev_mode, found.metrics, found.max_connections) == (
        ["a", "b"],
        4,
        True,
        False,
        7,
    )
    sources = {name: source for name, _, source, _ in describe_settings({"FF_DRAIN_S": "4"}, file)}
    assert (sources["FF_DRAIN_S"], sources["FF_LANES"], sources["FF_LOG"]) == (
        "environment",
        "file",
        "default",
    )


@pytest.mark.parametrize(
    "text",
    ["unheard_of = 1", "lanes = {a = 1}", "lanes = [1]", "= nonsense", "drain_s = 1.5", "\xff"],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ff.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"ff\.toml"):
        read_config_file(str(path))
    with pytest.raises(ConfigError, match="missing"):
        read_config_file(str(tmp_path / "missing"))


def test_secrets_are_never_shown() -> None:
    urls = {"FF_POSTGRES_URL", "FF_VALKEY_URL"}
    hidden = {"FF_WAITPOINT_HMAC_SECRET", "FF_API_TOKEN", "FF_SENTRY_DSN", *urls}
    for environ, file in (
        (dict.fromkeys(TABLE, "hunter2"), {}),
        ({}, dict.fromkeys(TABLE, "hunter2")),
    ):
        shown = {name: value for name, value, _, _ in describe_settings(environ, file)}
        assert {name for name in TABLE if shown[name] == "(set)"} == hidden
        assert all(shown[name] == "hunter2" for name in set(TABLE) - hidden)
    assert {value for name, value, _, _ in describe_settings({}) if name in hidden} == {"(not set)"}
    assert describe_settings({}) == [
        (v.name, "(not set)" if v.secret else v.default or "(empty)", "default", v.meaning)
        for v in VARIABLES
    ]


# ---- what reaches the engine


@pytest.mark.parametrize("text", ["all", "transitions", "off"])
def test_the_engine_is_given_the_lease_events_to_write(text: str) -> None:
    assert load_settings({**LEAST, "FF_LEASE_EVENTS": text}).engine.lease_events == text


async def test_retention_ages_match_the_engine_settings(tmp_path: Path) -> None:
    ages = {
        "FF_RETENTION_COMPLETED": "1s",
        "FF_RETENTION_FAILED": "30d",
        "FF_RETENTION_TRIMMER_INTERVAL_S": "1",
    }
    async with open_engine(
        load_settings({**LEAST, **ages, "FF_SQLITE_PATH": str(tmp_path / "ff.db")})
    ) as engine:
        settings = engine.settings
        assert (settings.retention_completed_ms, settings.retention_failed_ms) == (
            1_000,
            2_592_000_000,
        )
        ident = ExecutionId.solo("default")
        await engine.create_execution(CreateExecutionArgs(execution_id=ident, lane_id="default"))
        await engine.cancel_execution(CancelExecutionArgs(execution_id=ident))
        async with patient(30):
            while await engine.read_outcome(ident) is not None:  # noqa: ASYNC110 - the loop is on another thread
                await asyncio.sleep(0.05)
