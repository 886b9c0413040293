"""The log of a process: requests, answers and observations. One file per process."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from flowfabric.errors import EngineError, TransportError

T = TypeVar("T")
SUFFIX = ".log"


class Log:
    """Appends JSON lines with one `write` each, so that a line in the file was written before the
    process died.
    """

    def __init__(self, folder: Path, instance: str, clock: Callable[[], int] | None = None) -> None:
        """`clock` is the wall clock of the store, by default that of this process."""
        self._clock = clock
        self.path = folder / (instance + SUFFIX)
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._sequence = 0
        self._lock = threading.Lock()

    def write(self, kind: str, op: str, **fields: Any) -> int:
        with self._lock:
            self._sequence += 1
            number = self._sequence
        line = {
            "seq": number,
            "t": time.monotonic_ns(),
            "ms": (self._clock or time.time_ns)() // 1_000_000,
            "kind": kind,
            "op": op,
        }
        os.write(
            self._file, (json.dumps({**line, **fields}, separators=(",", ":")) + "\n").encode()
        )
        return number

    def refused(self, op: str, number: int, error: EngineError) -> None:
        doubtful = isinstance(error, TransportError) and error.doubtful
        self.write(
            "unknown" if doubtful else "refused", op, call=number, code=error.code, says=str(error)
        )

    async def call(
        self,
        op: str,
        work: Awaitable[T],
        saw: Callable[[T], dict[str, Any]] | None = None,
        *,
        after: Callable[[], None] | None = None,
        **facts: Any,
    ) -> T:
        """Awaits a call and logs the answer. `after` runs between the answer and its record."""
        number = self.write("ask", op, **facts)
        try:
            result = await work
        except EngineError as error:
            self.refused(op, number, error)
            raise
        if after is not None:
            after()
        self.write("ack", op, call=number, **({} if saw is None else saw(result)))
        return result


class Call(Struct):
    """One request. `verdict` is acknowledged, refused, or unknown: the process died first, or the
    answer was an unknown outcome.
    """

    instance: str
    op: str
    facts: dict[str, Any]
    asked_ns: int
    asked_ms: int
    verdict: str = "unknown"
    answered_ns: int = 0
    reply: dict[str, Any] = {}

    @property
    def execution(self) -> str:
        return str(self.facts.get("execution", ""))

    @property
    def epoch(self) -> int:
        return int(self.facts.get("epoch", 0))

    @property
    def acknowledged(self) -> bool:
        return self.verdict == "acknowledged"


class Life(Struct):
    """The events of a channel that one process of a subscriber received, and its saved cursor at
    the start.
    """

    instance: str
    channel: str
    resumed: str
    events: list[dict[str, Any]] = []
    seen_ns: list[int] = []


class History(Struct):
    calls: list[Call] = []
    lives: list[Life] = []
    notes: list[dict[str, Any]] = []

    def of(self, *ops: str, verdict: str = "acknowledged") -> Iterator[Call]:
        return (call for call in self.calls if call.op in ops and call.verdict == verdict)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Ignores a line cut short by a kill."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)


def read_history(folder: Path, instances: str = "*") -> History:
    history = History([], [], [])
    for path in sorted(folder.glob(instances + SUFFIX), key=_age):
        _add(history, path.name.removesuffix(SUFFIX), read_lines(path))
    return history


def _age(path: Path) -> tuple[str, int]:
    """Orders the processes of one role by their start."""
    role, _, life = path.name.removesuffix(SUFFIX).rpartition("-")
    return role, int(life)


def history_of(lines: dict[str, Iterable[dict[str, Any]]]) -> History:
    history = History([], [], [])
    for instance, said in lines.items():
        _add(history, instance, said)
    return history


def _add(history: History, instance: str, lines: Iterable[dict[str, Any]]) -> None:
    calls: dict[int, Call] = {}
    lives: dict[str, Life] = {}
    for line in lines:
        seq, at_ns, at_ms, kind, op = (line.pop(name) for name in ("seq", "t", "ms", "kind", "op"))
        match kind:
            case "ask":
                calls[seq] = Call(instance, op, line, at_ns, at_ms)
            case "ack" | "refused" | "unknown":
                call = calls[line.pop("call")]
                call.verdict = "acknowledged" if kind == "ack" else kind
                call.answered_ns, call.reply = at_ns, line
            case "resume":
                lives[op] = Life(instance, op, line["cursor"], [], [])
            case "event":
                lives[op].events.append(line)
                lives[op].seen_ns.append(at_ns)
            case _:
                history.notes.append(
                    {"instance": instance, "op": op, "t": at_ns, "ms": at_ms, **line}
                )
    history.calls += calls.values()
    history.lives += lives.values()
