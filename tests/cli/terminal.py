"""A terminal of its own, in a tmux server that the test starts and ends."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import patience

PATIENCE_S = 20.0
TMUX = shutil.which("tmux")
SIZES = ("COLUMNS", "LINES")
"""Variables that would hide the size of the terminal."""
needs_tmux = pytest.mark.skipif(TMUX is None, reason="tmux is not installed")


class Terminal:
    """What one command shows in a terminal of this size. Its exit code is shown at the end."""

    def __init__(self, args: list[str], folder: Path, width: int, height: int) -> None:
        self._socket = str(folder / "tmux.sock")
        command = shlex.join([sys.executable, "-m", "flowfabric.cli.main", *args])
        script = f"trap : INT; {command}; echo code=$?; exec cat"
        size = ["-x", str(width), "-y", str(height)]
        self._tmux("-f", os.devnull, "new-session", "-d", *size, "sh", "-c", script)

    def _tmux(self, *args: str) -> str:
        assert TMUX is not None
        env = {name: value for name, value in os.environ.items() if name not in SIZES}
        env |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}
        done = subprocess.run(
            [TMUX, "-u", "-S", self._socket, *args],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=patience(PATIENCE_S),
            env=env,
            check=True,
        )
        return done.stdout

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def until(self, *parts: str) -> str:
        """The screen, once it has all of these."""
        end = time.monotonic() + patience(PATIENCE_S)
        while not all(part in (shown := self.screen()) for part in parts):
            assert time.monotonic() < end, f"{parts} did not come:\n{shown}"
            time.sleep(0.05)
        return shown

    def close(self) -> None:
        self._tmux("kill-server")


@contextmanager
def terminal(*args: str, folder: Path, width: int = 150, height: int = 46) -> Iterator[Terminal]:
    shown = Terminal(list(args), folder, width, height)
    try:
        yield shown
    finally:
        shown.close()
