"""The systems by name and store. Each is imported only in the child process that runs it."""

from __future__ import annotations

from importlib.util import find_spec

from benchmarks.peers.protocol import System

RAW, OWN = "raw", "flowfabric"
SYSTEMS = {
    "postgres": {
        OWN: "flowfabric",
        "pgqueuer": "pgqueuer",
        "procrastinate": "procrastinate",
        "dbos": "dbos",
        RAW: "asyncpg",
    },
    "valkey": {
        OWN: "glide",
        "celery": "celery",
        "dramatiq": "dramatiq",
        "arq": "arq",
        "saq": "saq",
        RAW: "glide",
    },
}
"""The package that each needs."""


def systems_of(store: str) -> dict[str, str]:
    if store not in SYSTEMS:
        raise SystemExit(
            "this scenario compares systems on a server: --store postgres or --store valkey, "
            f"not {store}"
        )
    return SYSTEMS[store]


def load(name: str, url: str) -> System:
    if name == OWN:
        from benchmarks.peers import flowfabric_

        return flowfabric_
    store = "valkey" if url.startswith("valkey://") else "postgres"
    found = _on_valkey(name) if store == "valkey" else _on_postgres(name)
    if found is None:
        raise ValueError(f"system: one of {', '.join(SYSTEMS[store])}, got {name!r}")
    return found


def _on_postgres(name: str) -> System | None:
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
    return None


def _on_valkey(name: str) -> System | None:
    if name == "celery":
        from benchmarks.peers import celery_

        return celery_
    if name == "dramatiq":
        from benchmarks.peers import dramatiq_

        return dramatiq_
    if name == "arq":
        from benchmarks.peers import arq_

        return arq_
    if name == "saq":
        from benchmarks.peers import saq_

        return saq_
    if name == RAW:
        from benchmarks.peers import raw_valkey

        return raw_valkey
    return None


def require(store: str) -> None:
    """Ends with a message that names the extra where a package is not installed."""
    missing = sorted({each for each in systems_of(store).values() if find_spec(each) is None})
    if missing:
        raise SystemExit(
            f"not installed: {', '.join(missing)}; the benchmarks against peers need: pip "
            f"install -e '.[dev,bench]'"
        )
