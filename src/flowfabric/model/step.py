"""Finished parts of a task: what ran once is not run again."""

from __future__ import annotations

from msgspec import Struct

MAX_STEPS = 10_000
MAX_STEP_BYTES = 1_048_576
MAX_STEP_NAME_BYTES = 256


class StepRecord(Struct, frozen=True, gc=False):
    """What was finished at one position of a task. `kind` says what it was: a step, a sleep, a
    wait.
    """

    position: int
    name: str
    kind: str
    attempt_index: int
    recorded_at_ms: int
    value: bytes | None = None


class LastSuspension(Struct, frozen=True):
    """The latest suspension of an execution: what its holder said it was for, and how it was
    closed, if it was.
    """

    pointer: str | None
    attempt_index: int
    close_reason: str | None
