"""A PgBouncer in transaction mode, where the machine has one."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import urlsplit

import psycopg

from flowfabric.testing.postgres import free_port

PATIENCE_S = 15.0
BINARY = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")


class PgBouncer:
    """It has fewer sessions on the server than the engines have connections to it."""

    def __init__(self, url: str, sessions: int) -> None:
        assert BINARY is not None
        parts = urlsplit(url)
        port = free_port()
        self.url = f"postgresql://{parts.username}@127.0.0.1:{port}{parts.path}?sslmode=disable"
        self._folder = Path(mkdtemp(prefix="ff-pgbouncer-"))
        self._folder.chmod(0o755)
        config = self._folder / "pgbouncer.ini"
        config.write_text(
            f"""[databases]
* = host={parts.hostname} port={parts.port} user={parts.username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = 1000
ignore_startup_parameters = extra_float_digits
"""
        )
        self._log = (self._folder / "log").open("wb")
        self._process = subprocess.Popen(
            [BINARY, str(config)],
            user="nobody" if os.geteuid() == 0 else None,
            stdout=self._log,
            stderr=self._log,
        )

    def __enter__(self) -> PgBouncer:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                psycopg.connect(self.url).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    self.close()
                    raise
                time.sleep(0.02)
                continue
            return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)
