"""Long-running commands: started, read line by line, always ended."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.patience import patience

PATIENCE_S = 60.0
PROGRAM = (sys.executable, "-m", "flowfabric.cli.main")


class Command:
    def __init__(self, args: list[str], folder: Path, program: Sequence[str] = PROGRAM) -> None:
        env = {**os.environ, "COLUMNS": "200", "PYTHONIOENCODING": "utf-8"}
        self.process = subprocess.Popen(
            [*program, *args],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            env=env,
        )
        self.lines: list[str] = []
        self._new: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._new.put(line.rstrip("\n"))
        self._new.put(None)

    def until(self, part: str) -> str:
        """The next line with this in it."""
        while True:
            line = self._new.get(timeout=patience(PATIENCE_S))
            assert line is not None, f"it ended without saying {part!r}: {self.lines}"
            self.lines.append(line)
            if part in line:
                return line

    def ended(self) -> int:
        """Its exit status, and the rest of its output."""
        while (line := self._new.get(timeout=patience(PATIENCE_S))) is not None:
            self.lines.append(line)
        self._new.put(None)
        return self.process.wait(patience(PATIENCE_S))

    def close(self) -> None:
        self.process.kill()
        self.ended()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def running(folder: Path, *args: str) -> Iterator[Command]:
    command = Command(list(args), folder)
    try:
        yield command
    finally:
        command.close()
