"""The systems by name. Each is imported only in the child process that runs it."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from benchmarks.peers.protocol import System

RAW = "raw"
SYSTEMS = {
    "flowfabric": "flowfabric",
    "pgqueuer": "pgqueuer",
    "procrastinate": "procrastinate",
    "dbos": "dbos",
    RAW: "asyncpg",
}


def load(name: str) -> System:
    if name == "flowfabric":
        from benchmarks.peers import flowfabric_

        return flowfabric_
    if name == "pgqueuer":
        from benchmarks.peers import pgqueuer_

        return pgqueuer_
    if name == "procrastinate":
        from benchmarks.peers import procrastinate_

        return procrastinate_
    if name == "dbos":
        from benchmarks.peers import dbos_

        return dbos_
    if name == RAW:
        from benchmarks.peers import raw

        return raw
    raise ValueError(f"system: one of {', '.join(SYSTEMS)}, got {name!r}")


def require(names: Iterable[str]) -> None:
    """Ends with a message that names the extra where a package is not installed."""
    missing = sorted({SYSTEMS[name] for name in names if find_spec(SYSTEMS[name]) is None})
    if missing:
        raise SystemExit(
            f"not installed: {', '.join(missing)}; the benchmarks against peers need: pip "
            f"install -e '.[dev,bench]'"
        )
