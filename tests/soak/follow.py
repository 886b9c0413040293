"""The checks of followed streams and of schedules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from flowfabric.verify.invariants import Violation
from tests.chaos.logs import History
from tests.chaos.task_plan import FRAMES, TICK

MINUTE_MS = 60_000


def frames_came_in_order(
    notes: Iterable[Mapping[str, Any]], away: Sequence[tuple[int, int]]
) -> Iterator[Violation]:
    """Every frame once, for each lease that wrote them. After an outage of the store the last may
    be missing.
    """
    for note in notes:
        if note["op"] != "followed":
            continue
        numbers = [int(frame) for frame in note["frames"]]
        met = note["broke"] or any(down <= note["t"] and note["began"] <= up for down, up in away)
        if not _is_whole(numbers, may_lack_the_last=met):
            yield Violation("stream", note["run"], f"its follower received frames {numbers}")


def _is_whole(numbers: list[int], *, may_lack_the_last: bool) -> bool:
    """A run whose lease was lost starts again with the first frame."""
    begins = [at for at, number in enumerate(numbers) if number == 0]
    runs = [numbers[at:until] for at, until in pairwise([*begins, len(numbers)])]
    if any(run != list(range(len(run))) for run in runs) or numbers[:1] not in ([], [0]):
        return False
    return may_lack_the_last or (bool(runs) and len(runs[-1]) == FRAMES)


def every_minute_ran(history: History, began_ms: int, ended_ms: int) -> Iterator[Violation]:
    """A schedule submits a run for every minute that a worker saw completely. The history is that
    of the workers, including removed executions.
    """
    ticks: dict[str, set[int]] = defaultdict(set)
    for call in history.of("create"):
        for (namespace, kind, _), (_, key) in zip(
            call.facts.get("runs", ()), call.facts["asked"], strict=False
        ):
            if kind == TICK:
                ticks[namespace].add(int(str(key).rpartition("@")[2]))
    first = (began_ms // MINUTE_MS + 2) * MINUTE_MS
    due = set(range(first, ended_ms - MINUTE_MS, MINUTE_MS))
    for namespace, found in ticks.items():
        if due - found:
            yield Violation("schedule", namespace, f"{len(due - found)} of {len(due)} ticks missed")
    if due and not ticks:
        yield Violation("schedule", TICK, "no tick was submitted")
