"""A PgBouncer in transaction mode, where this machine has one."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import psycopg

from flowfabric.testing.postgres import free_port

PATIENCE_S = 15.0
SESSIONS = 24
"""On the server, for all clients together."""
CONFIG = """[databases]
* = host={host} port={server_port} user={user}
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


def binary() -> str | None:
    return shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")


@contextmanager
def pooled(url: str) -> Iterator[str]:
    """The url of a pooler before the server of this one."""
    program, parts, port = binary(), urlsplit(url), free_port()
    assert program is not None
    with TemporaryDirectory(prefix="flowfabric-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        config = folder / "pgbouncer.ini"
        config.write_text(
            CONFIG.format(
                host=parts.hostname,
                server_port=parts.port,
                user=parts.username,
                port=port,
                sessions=SESSIONS,
            )
        )
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [program, str(config)],
                user="nobody" if os.geteuid() == 0 else None,
                stdout=log,
                stderr=log,
            )
        try:
            through = f"postgresql://{parts.username}@127.0.0.1:{port}{parts.path}?sslmode=disable"
            _await(through, process)
            yield through
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > deadline or process.poll() is not None:
                raise
            time.sleep(0.02)
