"""What the command says at its start about what a crash can lose."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from urllib.request import urlopen

from flowfabric.testing.postgres import free_port
from flowfabric.testing.valkey import ValkeyServer
from tests.cli.processes import PROGRAM
from tests.store.valkey.test_replicated import ALWAYS, pair

SECRET = "0f" * 32
APP = """
from flowfabric import App
app = App("valkey://127.0.0.1:1/unused")

@app.task
async def mail() -> None: ...
"""


def _started(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROGRAM, *arguments],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        text=True,
    )


def _line(process: subprocess.Popen[str], begins: str) -> str:
    assert process.stdout is not None
    return next(line.strip() for line in process.stdout if line.startswith(begins))


def test_the_server_says_its_durability_at_its_start_and_when_asked() -> None:
    with pair() as (primary, _):
        address = f"127.0.0.1:{free_port()}"
        server = _started(
            "server",
            FF_BACKEND="valkey",
            FF_VALKEY_URL=primary.url,
            FF_DURABILITY="replicated",
            FF_DEV_MODE="1",
            FF_LISTEN_ADDR=address,
            FF_WAITPOINT_HMAC_SECRET=SECRET,
        )
        try:
            said = _line(server, "durability: ")
            assert re.match(r"durability: replicated \(.*replica.*\)", said)
            with urlopen(f"http://{address}/readyz", timeout=30) as answer:
                checks = json.load(answer)["checks"]
            assert f"durability: {checks['durability']}" == said
        finally:
            server.terminate()
            server.communicate()


def test_a_worker_says_its_durability_at_its_start(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text(APP)
    with ValkeyServer(*ALWAYS) as store:
        worker = _started("worker", str(file), "--db", store.url)
        try:
            assert _line(worker, "durability: ").startswith("durability: full (append file")
        finally:
            worker.terminate()
            worker.communicate()
