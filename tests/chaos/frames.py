"""The frames that workers write in a chaos run, and the checks that every acknowledged frame is
stored exactly once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from flowfabric import AppendOutcome, Frame, FrameKind
from flowfabric.rules.streams.frames import decode_fields
from flowfabric.verify.invariants import Violation
from flowfabric.verify.snapshot import FrameRow, StreamKey

from .evidence import Evidence, key_of
from .logs import Call

PARTS = 2
"""Batches per lease, of one frame more each time."""
WRITES_EVERY = 4
"""Of so many executions one writes."""


def batch(epoch: int, part: int) -> list[Frame]:
    """No two leases of an execution use the same numbers."""
    numbers = range(
        (epoch * PARTS + part) * (PARTS + 1), (epoch * PARTS + part) * (PARTS + 1) + part + 1
    )
    return [Frame(text(epoch, number), FrameKind.Stdout, seq=number) for number in numbers]


def text(epoch: int, number: int) -> bytes:
    return f"{epoch}/{number}".encode()


def sent(frames: list[Frame]) -> dict[str, Any]:
    return {"numbers": [frame.seq for frame in frames]}


def appended(outcomes: list[AppendOutcome]) -> dict[str, Any]:
    return {
        "ids": [outcome.frame_id for outcome in outcomes],
        "counts": [outcome.frame_count for outcome in outcomes],
    }


def _stream(call: Call) -> StreamKey:
    return (*key_of(call.execution), int(call.facts["attempt"]))


def frames_stand(seen: Evidence) -> Iterator[Violation]:
    """Every acknowledged frame is in its stream once, at the acknowledged position, with its
    content.
    """
    for call in seen.history.of("append"):
        found: dict[int | None, list[FrameRow]] = defaultdict(list)
        for frame in seen.world.frames.get(_stream(call), []):
            found[frame.client_seq].append(frame)
        for number, ident, count in zip(
            call.facts["numbers"], call.reply["ids"], call.reply["counts"], strict=True
        ):
            stored = [(f.id, f.number, decode_fields(f.fields)["payload"]) for f in found[number]]
            if stored != [(ident, count, text(call.epoch, number).decode())]:
                yield Violation(
                    "lost frame",
                    call.execution,
                    f"frame {number} was acknowledged as {ident}, stored is {stored}",
                )


def frames_were_sent(seen: Evidence) -> Iterator[Violation]:
    """Every stored frame was sent by a call that was not refused. Tasks write without numbers of
    their own.
    """
    asked: dict[StreamKey, Counter[int]] = defaultdict(Counter)
    for call in seen.history.calls:
        if call.op == "append" and call.verdict != "refused":
            asked[_stream(call)].update(call.facts["numbers"])
    of_tasks = {key_of(ident) for ident in seen.runs}
    for key, frames in seen.world.frames.items():
        for frame in frames if key[:2] not in of_tasks else ():
            if frame.client_seq is None or not asked[key][frame.client_seq]:
                yield Violation(
                    "I17",
                    f"{key[0]}/{key[1]}",
                    f"frame {frame.client_seq} of attempt {key[2]} was refused or never sent",
                )


FRAME_CHECKS = (frames_stand, frames_were_sent)
