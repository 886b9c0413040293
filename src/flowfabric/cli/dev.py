"""`flowfabric dev`: a worker on SQLite that restarts when a source file changes."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from flowfabric.cli import dev_child
from flowfabric.cli.app_loader import Target, parse_target
from flowfabric.cli.worker import SIGNALS, say
from flowfabric.errors import ConfigError

POLL_S = 0.2
MAX_FILES = 2_000
SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
Stamps = dict[str, tuple[int, int]]


def run(target: str, url: str | None, concurrency: int) -> int:
    """Run until a signal. The user's code runs in a child process: each restart is clean."""
    folder = watched_folder(parse_target(target))
    received: list[int] = []
    for number in SIGNALS:
        signal.signal(number, lambda got, _: received.append(got))
    seen = stamps(folder)
    child = Child(target, url, concurrency)
    while not received:
        time.sleep(POLL_S)
        now = stamps(folder)
        if now != seen:
            say(f"{describe_changes(seen, now)} changed: restarting")
            seen = now
            child.stop()
            child = Child(target, url, concurrency)
        elif child.newly_ended():
            say("waiting for the code to change")
    child.stop()
    return 0


def watched_folder(target: Target) -> Path:
    if target.path is None:
        return Path.cwd()
    if not target.path.is_file():
        raise ConfigError(f"{target.path}: no such file")
    return target.path.resolve().parent


def stamps(folder: Path) -> Stamps:
    """The modification time and size of each module."""
    found: Stamps = {}
    for path in modules(folder):
        try:
            info = os.stat(path)
        except FileNotFoundError:
            continue  # an editor saves by renaming; the next poll sees the file
        found[path] = (info.st_mtime_ns, info.st_size)
        if len(found) >= MAX_FILES:
            break
    return found


def modules(folder: Path) -> Iterator[str]:
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if name not in SKIPPED and not name.startswith(".")
        )
        yield from (os.path.join(where, name) for name in sorted(files) if name.endswith(".py"))


def describe_changes(before: Stamps, after: Stamps) -> str:
    names = sorted(
        {
            Path(path).name
            for path in before.keys() | after.keys()
            if before.get(path) != after.get(path)
        }
    )
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


class Child:
    """The process with the user's code. It ends when its pipe closes: it cannot outlive this one.

    It is a fork of this process, which has imported everything but the user's code, so that a
    restart only imports that.
    """

    def __init__(self, target: str, url: str | None, concurrency: int) -> None:
        end, self._held = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if not self._pid:
            os.close(self._held)
            _exec_child(lambda: dev_child.main(target, url, concurrency, end))
        os.close(end)
        self._ended = False

    def newly_ended(self) -> bool:
        """True once, after the process has ended without `stop`."""
        if self._ended:
            return False
        self._ended = os.waitpid(self._pid, os.WNOHANG)[0] != 0
        return self._ended

    def stop(self) -> None:
        """Let running tasks finish; the child enforces its own grace period."""
        os.close(self._held)
        if not self._ended:
            os.waitpid(self._pid, 0)


def _exec_child(run: Callable[[], int]) -> NoReturn:
    """Run this instead of the rest of the forked process."""
    status = 1
    try:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        status = run()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
