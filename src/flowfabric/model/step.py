"""Recorded steps of a task: a recorded step does not run again."""

from __future__ import annotations

from msgspec import Struct

MAX_STEPS = 10_000
MAX_STEP_BYTES = 1_048_576
MAX_STEP_NAME_BYTES = 256


class StepRecord(Struct, frozen=True, gc=False):
    """The record of one position of a task. `kind` is a step, a sleep or a wait."""

    position: int
    name: str
    kind: str
    attempt_index: int
    recorded_at_ms: int
    value: bytes | None = None


class LastSuspension(Struct, frozen=True):
    """The latest suspension of an execution: its continuation pointer, and how it was closed."""

    pointer: str | None
    attempt_index: int
    close_reason: str | None
