"""Rates of created and ended executions from bounded samples."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from flowfabric.cli.top.model import OUTCOMES
from flowfabric.model.event import CompletionEvent, is_end
from flowfabric.model.search import ExecutionSummary

WINDOW_MS = 10_000
_WORDS = {"Success": "completed", "Failure": "failed", "Cancelled": "cancelled"}


class Sample(Struct, frozen=True):
    """Executions that ended between two times, by outcome. `is_whole`: none is left out."""

    from_ms: int
    to_ms: int
    ended: dict[str, int]
    is_whole: bool = True


def sample(
    events: Sequence[CompletionEvent], from_ms: int, to_ms: int, *, is_whole: bool = True
) -> Sample:
    """A sample that is not whole ends with its last event."""
    ended = dict.fromkeys(OUTCOMES, 0)
    for event in events:
        if is_end(event.outcome):
            ended[_WORDS.get(event.outcome, "other")] += 1
    until = to_ms if is_whole or not events else events[-1].at
    return Sample(from_ms, max(until, from_ms), ended, is_whole)


def recent(samples: Sequence[Sample], now_ms: int) -> tuple[Sample, ...]:
    """The samples of the last seconds."""
    return tuple(each for each in samples if each.to_ms > now_ms - WINDOW_MS)


def ended_rates(samples: Sequence[Sample]) -> dict[str, float]:
    seconds = sum(each.to_ms - each.from_ms for each in samples) / 1_000
    if not seconds:
        return dict.fromkeys(OUTCOMES, 0.0)
    return {word: sum(each.ended[word] for each in samples) / seconds for word in OUTCOMES}


def created_rate(newest: Sequence[ExecutionSummary], now_ms: int, *, is_full: bool) -> float:
    """The rate of creation, from the newest executions of the window.

    A full page covers the time back to its oldest execution.
    """
    if not newest:
        return 0.0
    covered_ms = now_ms - newest[-1].created_at if is_full else WINDOW_MS
    return len(newest) * 1_000 / max(covered_ms, 1)
