"""Commands that end by themselves, each in a process of its own.

It is forked from one that has the libraries already, for importing them takes longer than most
commands do. What belongs to
the command itself is imported anew, under the variables it is given.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.patience import patience

PATIENCE_S = 60.0
LIBRARIES = ("typer", "rich.console", "rich.table", "flowfabric.cli.app")


def flowfabric(*args: str, given: str | bytes = "", **env: str) -> subprocess.CompletedProcess[str]:
    """What `flowfabric ...` says and how it ends; here a hundred columns wide, with nothing set but
    what is given.
    """
    said = {"PATH": "", "COLUMNS": "100", "PYTHONIOENCODING": "utf-8", **env}
    request = json.dumps([args, said, str(Path.cwd())]).encode()
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(given.encode() if isinstance(given, str) else given)
        stdin.seek(0)
        server = _server()
        socket.send_fds(
            server,
            [len(request).to_bytes(4, "big")],
            [stdin.fileno(), stdout.fileno(), stderr.fileno()],
        )
        server.sendall(request)
        try:
            code = int.from_bytes(_whole(server, 1), "big")
        except TimeoutError:
            _server.cache_clear()  # it waits for a command that hangs; the next one gets another
            raise
        return subprocess.CompletedProcess(
            args, code, _text(stdout.fileno()), _text(stderr.fileno())
        )


def refused(done: subprocess.CompletedProcess[str], says: str, *codes: int) -> None:
    """One line on standard error says it, and nothing was printed."""
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("deprecated: ")]
    assert line.startswith("error: ") and says in line, done.stderr
    assert done.stdout == "" and done.returncode in (codes or range(1, 6)), done


def _text(fd: int) -> str:
    return os.pread(fd, os.fstat(fd).st_size, 0).decode()


@cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    with theirs:
        command = [sys.executable, "-m", "tests.cli.commands", str(theirs.fileno())]
        env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
        process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], env=env, cwd=Path(__file__).parents[2]
        )

    def close() -> None:
        ours.close()  # which ends it
        process.wait(patience(PATIENCE_S))

    atexit.register(close)
    return ours


def _whole(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = peer.recv(size - len(data))
        assert more, "the other side has gone"
        data += more
    return data


def serve(peer: socket.socket) -> None:
    """Run commands one after the other until the pipe closes."""
    for name in LIBRARIES:
        __import__(name)
    while True:
        head, fds, _, _ = socket.recv_fds(peer, 4, 3)
        if not head:
            return
        args, env, folder = json.loads(_whole(peer, int.from_bytes(head, "big")))
        child = os.fork()
        if child == 0:
            peer.close()
            become(args, env, folder, fds)
            return
        for fd in fds:
            os.close(fd)
        _, status = os.waitpid(child, 0)
        peer.sendall((os.waitstatus_to_exitcode(status) & 0xFF).to_bytes(1, "big"))


def become(args: list[str], env: dict[str, str], folder: str, fds: list[int]) -> None:
    for fd, place in zip(fds, (0, 1, 2), strict=True):
        os.dup2(fd, place)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    sys.argv = ["flowfabric", *args]
    for name in [name for name in sys.modules if name.startswith("flowfabric.cli")]:
        del sys.modules[name]
    from flowfabric.cli.main import main

    main()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
