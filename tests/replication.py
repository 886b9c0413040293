"""A streaming replica of a server, which can be promoted."""

from __future__ import annotations

import time

import psycopg

from flowfabric.testing.postgres import PostgresServer

PATIENCE_S = 30.0
UNSAFE = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}
"""Only the machine's own failure would need these."""


class Replica(PostgresServer):
    """Copied from a running server; it follows that server once it is started."""

    def __init__(self, primary: PostgresServer) -> None:
        self._primary = primary
        super().__init__(settings=UNSAFE)

    def _init_command(self) -> list[str]:
        command = [str(self._bin / "pg_basebackup"), "--pgdata", str(self._data)]
        command += ["--dbname", self._primary.url, "--write-recovery-conf"]
        return [*command, "--checkpoint=fast", "--no-sync", "--wal-method=stream"]

    def promote(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as db:
            assert db.execute("SELECT pg_promote(true, 30)").fetchone() == (True,)


def acknowledge_by_replica(primary: PostgresServer) -> None:
    """From now on a commit is acknowledged when the replica has written it."""
    with psycopg.connect(primary.url, autocommit=True) as db:
        db.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        db.execute("SELECT pg_reload_conf()")
        deadline = time.monotonic() + PATIENCE_S
        in_sync = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        while db.execute(in_sync).fetchone() != (1,):
            assert time.monotonic() < deadline, "the replica does not follow"
            time.sleep(0.02)


def both(primary: PostgresServer, replica: PostgresServer, database: str, more: str = "") -> str:
    """The URL that names both."""
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in (primary, replica))
    return f"postgresql://postgres@{hosts}/{database}{more}"
