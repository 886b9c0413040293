"""`flowfabric dev`: a worker on SQLite that begins anew whenever the code is saved."""

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
from flowfabric.cli.app_loader import Target, parsed
from flowfabric.cli.worker import SIGNALS, say
from flowfabric.errors import ConfigError

LOOK_S = 0.2
MAX_WATCHED = 2_000
SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
Stamps = dict[str, tuple[int, int]]


def run(target: str, url: str | None, concurrency: int) -> int:
    """Until a signal. The code itself runs in a child, so that each save begins with a clean interpreter."""
    folder = watched_folder(parsed(target))
    told: list[int] = []
    for number in SIGNALS:
        signal.signal(number, lambda got, _: told.append(got))
    seen = stamps(folder)
    child = Child(target, url, concurrency)
    while not told:
        time.sleep(LOOK_S)
        now = stamps(folder)
        if now != seen:
            say(f"{changed(seen, now)} changed: starting again")
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
    """When each module was last written, and how large it is."""
    found: Stamps = {}
    for path in modules(folder):
        try:
            info = os.stat(path)
        except FileNotFoundError:
            continue  # an editor that saves by renaming: the next look sees it
        found[path] = (info.st_mtime_ns, info.st_size)
        if len(found) >= MAX_WATCHED:
            break
    return found


def modules(folder: Path) -> Iterator[str]:
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if name not in SKIPPED and not name.startswith(".")
        )
        yield from (os.path.join(where, name) for name in sorted(files) if name.endswith(".py"))


def changed(before: Stamps, after: Stamps) -> str:
    names = sorted(
        {
            Path(path).name
            for path in before.keys() | after.keys()
            if before.get(path) != after.get(path)
        }
    )
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


class Child:
    """The process with the user's code. It ends when the pipe to it does, so it never outlives this one.

    It is a fork: this process has read everything but the user's code, so that a start takes no longer than that.
    """

    def __init__(self, target: str, url: str | None, concurrency: int) -> None:
        end, self._held = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if not self._pid:
            os.close(self._held)
            _leave(lambda: dev_child.main(target, url, concurrency, end))
        os.close(end)
        self._ended = False

    def newly_ended(self) -> bool:
        """Whether it has ended by itself, said once."""
        if self._ended:
            return False
        self._ended = os.waitpid(self._pid, os.WNOHANG)[0] != 0
        return self._ended

    def stop(self) -> None:
        """Lets it finish what runs. It keeps its own time, so there is no end to be put to it here."""
        os.close(self._held)
        if not self._ended:
            os.waitpid(self._pid, 0)


def _leave(run: Callable[[], int]) -> NoReturn:
    """Runs this as all that is left of the process."""
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
