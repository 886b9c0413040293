"""The specification of output streams in plain Python, on top of that of executions and their
suspensions.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.model.stream import (
    AppendOutcome,
    BestEffortLive,
    DurableSummary,
    Frame,
    StreamFrame,
    StreamFrames,
    SummaryDocument,
)
from flowfabric.store.port import Row
from flowfabric.store.schema import TABLES
from flowfabric.verify.snapshot import Snapshot

from .shapes import Err, Exec, Held, Whatever, no
from .suspend_spec import Suspends

CAP, SLACK = 3, 2
PATCH_CAP, PATCH_SLACK = 2, 1
WORDS = {
    "success": "attempt_success",
    "failed": "attempt_failure",
    "retry": "attempt_failure",
    "cancelled": "attempt_cancelled",
    "interrupted_reclaimed": "reclaimed",
    "expired": "expired",
}
PARTED = ("lease_expired", "lease_revoked")
Name = tuple[ExecutionId, int]
Place = tuple[int, int]


@dataclass
class Written:
    """A stored frame."""

    place: Place
    frame: Frame
    number: int
    own: int
    version: int | None
    expires: int | None

    @property
    def id(self) -> str:
        return "{}-{}".format(*self.place)

    def shown(self) -> StreamFrame:
        data = self.frame.bytes
        fields = {
            "encoding": "utf8",
            "frame_type": self.frame.frame_type or self.frame.kind.value,
            "mode": self.frame.mode.wire,
        }
        try:
            fields["payload"] = data.decode()
        except UnicodeDecodeError:
            fields |= {"encoding": "base64", "payload": base64.b64encode(data).decode()}
        fields |= {"source": "worker", "ts": str(self.place[0])}
        if self.version is not None:
            fields["summary_version"] = str(self.version)
        if isinstance(self.frame.mode, BestEffortLive):
            fields["ttl_ms"] = str(self.frame.mode.ttl_ms)
        return StreamFrame(self.id, fields)


@dataclass
class Tape:
    """One stream: stored frames, all written frames, and the document."""

    kept: list[Written] = field(default_factory=list)
    count: int = 0
    size: int = 0
    last: Place | None = None
    of_mode: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("durable", "summary", "best_effort"), 0)
    )
    gone: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("durable", "summary", "best_effort"), 0)
    )
    document: Any = None
    patched: Place = (0, 0)
    rate: Fraction | None = None
    lived: int = 0
    most: int = 0

    def drop(self, mode: str, upto: int) -> None:
        self.gone[mode] = max(self.gone[mode], upto)
        self.kept = [w for w in self.kept if w.frame.mode.wire != mode or w.own > upto]


class Streams(Suspends):
    def __init__(self, *said: Any) -> None:
        super().__init__(*said)
        self.tapes: dict[Name, Tape] = {}
        self.ends: dict[Name, tuple[int, str]] = {}
        self.log: list[tuple[Name, Written]] = []

    # ---- writing

    def append(self, h: Held, frames: Sequence[Frame]) -> list[AppendOutcome]:
        name = (h.ident, h.index)
        tape = self.tapes.get(name, Tape())
        before = {w.frame.seq: w for w in tape.kept if w.frame.seq is not None}
        new = [frame for frame in frames if frame.seq not in before]
        if new:
            self.let_in(h)
            self.check(new)
            self.cut(tape)
            self.tapes[name] = tape
        found = [
            before[frame.seq] if frame.seq in before else self.write(tape, frame)
            for frame in frames
        ]
        if new:
            self.tidy(tape)
            self.log += [(name, w) for w in tape.kept if w.number > tape.count - len(new)]
        return [AppendOutcome(f"{h.ident}:{h.index}", w.id, w.number, w.version) for w in found]

    def let_in(self, h: Held) -> None:
        try:
            self.fence(h, marks=False)
        except Err as refused:
            if refused.codes == ("execution_not_active",):
                raise Err("stream_closed") from None
            raise

    def check(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            if isinstance(frame.mode, DurableSummary):
                try:
                    no(not isinstance(json.loads(frame.bytes), dict), "invalid_input")
                except ValueError:
                    raise Err("invalid_input") from None

    def write(self, tape: Tape, frame: Frame) -> Written:
        mode = frame.mode.wire
        tape.count, tape.size = tape.count + 1, tape.size + len(frame.bytes)
        tape.of_mode[mode] += 1
        stands = tape.last is not None and tape.last[0] >= self.now
        tape.last = (tape.last[0], tape.last[1] + 1) if stands and tape.last else (self.now, 0)
        version = expires = None
        if isinstance(frame.mode, DurableSummary):
            version = tape.of_mode[mode]
            tape.document = _told(_merged(tape.document or {}, json.loads(frame.bytes)))
            tape.patched = (tape.patched[0] or self.now, self.now)
        elif isinstance(frame.mode, BestEffortLive):
            expires = self.linger(tape, frame.mode)
        made = Written(tape.last, frame, tape.count, tape.of_mode[mode], version, expires)
        tape.kept.append(made)
        return made

    def linger(self, tape: Tape, mode: BestEffortLive) -> int:
        """Two lifetimes' worth at the smoothed rate."""
        window = Fraction(2 * mode.ttl_ms, 1_000)
        if tape.rate is None:
            tape.rate = mode.maxlen_floor / window
        else:
            alpha = Fraction(str(mode.ema_alpha))
            tape.rate = (
                alpha * Fraction(1_000, max(self.now - tape.lived, 1)) + (1 - alpha) * tape.rate
            )
        tape.lived = self.now
        tape.most = min(max(ceil(tape.rate * window), mode.maxlen_floor), mode.maxlen_ceiling)
        return self.now + 2 * mode.ttl_ms

    def cut(self, tape: Tape) -> None:
        """Before an append: trims to the cap when it is exceeded by more than the slack."""
        count = tape.of_mode["durable"]
        if count - tape.gone["durable"] > CAP + SLACK:
            tape.drop("durable", count - CAP)

    def tidy(self, tape: Tape) -> None:
        """After an append."""
        patches, live = tape.of_mode["summary"], tape.of_mode["best_effort"]
        if patches - tape.gone["summary"] > PATCH_CAP + PATCH_SLACK:
            tape.drop("summary", patches - PATCH_CAP)
        if live - tape.gone["best_effort"] > tape.most:
            tape.drop("best_effort", live - tape.most)

    def forget(self) -> int:
        late = 0
        for tape in self.tapes.values():
            due = [w for w in tape.kept if w.expires is not None and w.expires <= self.now]
            tape.kept = [w for w in tape.kept if w not in due]
            late += len(due)
        return late

    # ---- reading

    def closure(self, name: Name) -> tuple[Any, str | None]:
        if name in self.ends:
            return self.ends[name]
        e = self.execs.get(name[0])
        parted = (
            e is not None
            and bool(e.attempts)
            and e.index == name[1]
            and e.state != "RUNNING"
            and e.cause in PARTED
        )
        return (Whatever(), e.cause) if e is not None and parted else (None, None)

    def page(
        self, name: Name, low: Place, high: Place, count: int, kept_only: bool
    ) -> StreamFrames:
        found = self.kept(name, kept_only)
        frames = [w.shown() for w in found if low <= w.place <= high][:count]
        return StreamFrames(tuple(frames), *self.closure(name))

    def kept(self, name: Name, kept_only: bool) -> list[Written]:
        tape = self.tapes.get(name, Tape())
        return [
            w for w in tape.kept if not kept_only or not isinstance(w.frame.mode, BestEffortLive)
        ]

    def tail(self, name: Name, after: Place, count: int, kept_only: bool) -> StreamFrames:
        no(name[0] not in self.execs, "execution_not_found")
        no(name[1] >= len(self.execs[name[0]].attempts), "attempt_not_found")
        return self.page(name, (after[0], after[1] + 1), (2**63, 0), count, kept_only)

    def summary(self, name: Name) -> SummaryDocument | None:
        tape = self.tapes.get(name)
        if tape is None or tape.document is None:
            return None
        return SummaryDocument(
            _compact(tape.document),
            tape.of_mode["summary"],
            "json-merge-patch",
            tape.patched[1],
            tape.patched[0],
        )

    def is_over(self, name: Name, later: bool) -> bool:
        """Whether a follower at this attempt can end."""
        e = self.execs[name[0]]
        return e.state == "ENDED" or (not later and (name in self.ends or e.index > name[1]))

    # ---- what else changes streams

    def note_ends(self) -> None:
        """At the end of an attempt, or when it continues after all."""
        for ident, e in self.execs.items():
            for index, a in enumerate(e.attempts):
                if a.outcome is None:
                    self.ends.pop((ident, index), None)
                elif (ident, index) not in self.ends:
                    timed_out = _timed_out(e) and index == e.index
                    self.ends[ident, index] = (
                        self.now,
                        "suspension_timeout" if timed_out else WORDS[a.outcome],
                    )

    def loop(self, name: str) -> None:
        super().loop(name)
        if name == "retention_trimmer":
            self.forget()

    def trim(self, lane: str, kept: int | None) -> int:
        gone = super().trim(lane, kept)
        self.tapes = {name: tape for name, tape in self.tapes.items() if name[0] in self.execs}
        self.ends = {name: end for name, end in self.ends.items() if name[0] in self.execs}
        return gone


def _timed_out(e: Exec) -> bool:
    return (e.failure or "").startswith("suspension_timeout")


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    made = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = _merged(made.get(name), value)
    return made


def _told(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _told(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_told(inner) for inner in value]
    return None if value == "__ff_null__" else value


def _compact(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


# ---- the stored rows


def _pairs(
    spec: Streams, world: Snapshot, tables: Mapping[str, list[Row]]
) -> Iterator[tuple[str, Any, Any]]:
    names: dict[tuple[int, UUID, int], Name] = {
        (n[0].partition_index, n[0].uuid, n[1]): n for n in spec.tapes
    }
    yield "streams", sorted(names), sorted(world.streams)
    for key, name in names.items():
        tape, meta = spec.tapes[name], world.streams.get(key)
        if meta is None:
            continue
        told = (
            meta.frame_count,
            meta.total_bytes,
            (meta.last_ts_ms, meta.last_seq),
            meta.durable_count,
            meta.summary_count,
        )
        told += (meta.live_count, meta.durable_trimmed, meta.summary_trimmed, meta.live_trimmed)
        wanted = (tape.count, tape.size, tape.last, *tape.of_mode.values(), *tape.gone.values())
        yield f"stream {name}", wanted, told
        rows = [
            (f.place, f.mode, f.number, f.mode_number, f.client_seq, f.expires_at_ms)
            for f in world.frames.get(key, [])
        ]
        kept = [
            (w.place, w.frame.mode.wire, w.number, w.own, w.frame.seq, w.expires) for w in tape.kept
        ]
        yield f"frames of {name}", kept, rows
    columns = TABLES["ff_stream_summary"].names
    stored = {
        tuple(row[:3]): dict(zip(columns, row, strict=True))["document_json"]
        for row in tables["ff_stream_summary"]
    }
    documents = {
        key: _compact(spec.tapes[n].document).decode()
        for key, n in names.items()
        if spec.tapes[n].document is not None
    }
    yield "documents", documents, stored


def stream_differences(
    spec: Streams, world: Snapshot, tables: Mapping[str, list[Row]]
) -> list[str]:
    return [
        f"{what}: specified {wanted!r}, stored {found!r}"
        for what, wanted, found in _pairs(spec, world, tables)
        if wanted != found
    ]
