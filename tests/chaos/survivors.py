"""Processes that survived a restart of the server and those that should have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from flowfabric.verify.invariants import Violation

from .evidence import Evidence

PATIENCE_S = 5.0
ENDS = ("kill", "term")


def outages(seen: Evidence) -> list[tuple[int, int]]:
    """The start and end of each outage."""
    downs = [note["t"] for note in seen.history.notes if note["op"] == "down"]
    ups = [note["t"] for note in seen.history.notes if note["op"] == "up"]
    return list(zip(downs, ups, strict=False))


def reconnects(seen: Evidence) -> int:
    """The number of processes with answers before and after a restart."""
    answers = _answers(seen)
    for life in seen.history.lives:
        answers[life.instance] += life.seen_ns
    return sum(
        any(at < down for at in times) and any(at > up for at in times)
        for down, up in outages(seen)
        for times in answers.values()
    )


def nobody_is_stuck(seen: Evidence) -> Iterator[Violation]:
    """A worker that was active before a restart, and undisturbed long enough after it, is active
    again.
    """
    answers, ends, stopped = _answers(seen), _ends(seen), _stopped_ns(seen)
    spans = outages(seen)
    last = max((at for times in answers.values() for at in times), default=0)
    for at, (down, up) in enumerate(spans):
        following = spans[at + 1][0] if at + 1 < len(spans) else last
        for instance, times in answers.items():
            until = up + int(PATIENCE_S * 1e9) + stopped[instance]
            watched = instance.startswith("worker") and until < min(
                following, ends.get(instance, last)
            )
            if (
                watched
                and min(times) < down
                and not any(up < answered <= until for answered in times)
            ):
                yield Violation(
                    "stuck",
                    instance,
                    f"nothing came of it for {PATIENCE_S:.0f} s after restart {at + 1}",
                )


def _answers(seen: Evidence) -> dict[str, list[int]]:
    times: dict[str, list[int]] = defaultdict(list)
    for call in seen.history.calls:
        if call.acknowledged:
            times[call.instance].append(call.answered_ns)
    return times


def _ends(seen: Evidence) -> dict[str, int]:
    """The times at which each process was killed, asked to end, or killed itself."""
    ends: dict[str, int] = {}
    for note in seen.history.notes:
        if note["op"] in ENDS or note["op"] == "trap":
            instance = note.get("target", note["instance"])
            ends[instance] = min(note["t"], ends.get(instance, note["t"]))
    return ends


def _stopped_ns(seen: Evidence) -> dict[str, int]:
    stopped: dict[str, int] = defaultdict(int)
    for note in seen.history.notes:
        if note["op"] in ("stop", "freeze"):
            stopped[note["target"]] += int(float(note["seconds"]) * 1e9)
    return stopped
