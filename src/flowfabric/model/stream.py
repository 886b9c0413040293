"""Output streams of attempts: frames, their retention modes, and what a reader gets."""

from __future__ import annotations

import base64
import binascii
import builtins
from enum import StrEnum
from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from flowfabric.errors import Corruption

MAX_FRAME_BYTES = 65_536
MAX_BATCH_FRAMES = 256
MAX_BATCH_BYTES = 1_048_576
MAX_FRAME_TYPE_BYTES = 64
MAX_CORRELATION_ID_BYTES = 256
MAX_FRAME_SEQ = 2**63 - 1
MAX_LIVE_TTL_MS = 2**32 - 1
MAX_LIVE_FRAMES = 2**31 - 1
STREAM_READ_HARD_CAP = 10_000
MAX_TAIL_BLOCK_MS = 30_000
DURABLE_CAP = 10_000
DURABLE_SLACK = 256
SUMMARY_CAP = 64
SUMMARY_SLACK = 64
"""A stream is trimmed to its cap when it exceeds it by the slack: one delete for many appends."""
LIVE_FLOOR = 64
LIVE_CEILING = 16_384
LIVE_ALPHA = 0.2
MAX_PATCH_DEPTH = 16
MAX_DOCUMENT_DEPTH = 32
MAX_SUMMARY_BYTES = 1_048_576
NULL_SENTINEL = "__ff_null__"
PATCH_KIND = "json-merge-patch"


class FrameKind(StrEnum):
    Stdout = "stdout"
    Stderr = "stderr"
    Event = "event"
    Blob = "blob"


class Visibility(StrEnum):
    All = "all"
    ExcludeBestEffort = "exclude_best_effort"


class Durable(Struct, frozen=True, tag=True):
    """Kept, up to the cap of the stream."""

    wire: ClassVar[str] = "durable"


class DurableSummary(Struct, frozen=True, tag=True):
    """The payload is a JSON merge patch of the attempt's document, which is kept for good."""

    wire: ClassVar[str] = "summary"

    patch_kind: str = PATCH_KIND


class BestEffortLive(Struct, frozen=True, tag=True):
    """For live readers: keeps about two `ttl_ms` of frames, between the floor and the ceiling."""

    wire: ClassVar[str] = "best_effort"

    ttl_ms: int
    maxlen_floor: int = LIVE_FLOOR
    maxlen_ceiling: int = LIVE_CEILING
    ema_alpha: float = LIVE_ALPHA


FrameMode = Durable | DurableSummary | BestEffortLive


class Frame(Struct, frozen=True, gc=False):
    """A frame with a `seq` is written once, even if sent again. `frame_type` overrides the kind."""

    bytes: builtins.bytes
    kind: FrameKind
    frame_type: str = ""
    correlation_id: str | None = None
    seq: int | None = None
    mode: FrameMode = Durable()


class StreamMeta(Struct, frozen=True):
    """A row of `ff_stream_meta`, column by column."""

    partition_key: int
    execution_id: UUID
    attempt_index: int
    created_at_ms: int
    frame_count: int = 0
    total_bytes: int = 0
    last_ts_ms: int = 0
    last_seq: int = 0
    has_durable_frame: int = 0
    durable_count: int = 0
    durable_trimmed: int = 0
    summary_count: int = 0
    summary_trimmed: int = 0
    live_count: int = 0
    live_trimmed: int = 0
    ema_rate_hz: float | None = None
    last_append_ts_ms: int | None = None
    maxlen_applied_last: int | None = None
    version: int = 0


class AppendOutcome(Struct, frozen=True, gc=False):
    """`stream_id` is `<execution id>:<attempt index>`; `frame_count` includes deleted frames."""

    stream_id: str
    frame_id: str
    frame_count: int
    summary_version: int | None = None


class StreamFrame(Struct, frozen=True, gc=False):
    """A stored frame: `id` is `<ts>-<seq>`, and every field is text."""

    id: str
    fields: dict[str, str]

    @property
    def payload(self) -> bytes:
        text = self.fields.get("payload", "")
        if self.fields.get("encoding") != "base64":
            return text.encode(errors="surrogatepass")
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Corruption(f"payload of frame {self.id}: {error}") from None

    @property
    def mode(self) -> str:
        return self.fields.get("mode", Durable.wire)

    @property
    def ts_ms(self) -> int:
        return int(self.id.partition("-")[0])


class StreamFrames(Struct, frozen=True):
    """A page of a stream. After `closed_at`, one more read up to `end` returns the rest."""

    frames: tuple[StreamFrame, ...]
    closed_at: int | None = None
    closed_reason: str | None = None

    @property
    def closed(self) -> bool:
        return self.closed_at is not None

    @property
    def next_after(self) -> str | None:
        """The cursor after the last frame; None for an empty page, after which the cursor stays."""
        return self.frames[-1].id if self.frames else None


class SummaryDocument(Struct, frozen=True):
    """Compact JSON with sorted keys; the version counts the patches."""

    document_json: bytes
    version: int
    patch_kind: str
    last_updated_ms: int
    first_applied_ms: int


class FollowedPage(Struct, frozen=True):
    """Frames of a followed stream, and the next position; no attempt means that it has ended."""

    frames: tuple[StreamFrame, ...]
    next_attempt: int | None
    next_after: str
