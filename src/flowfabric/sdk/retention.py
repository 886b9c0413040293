"""How long runs are kept after their end."""

from __future__ import annotations

from msgspec import Struct

from flowfabric.errors import ConfigError
from flowfabric.model.policy import RetentionPolicy
from flowfabric.sdk.durations import Span, millis

SHORTEST_MS = 1_000


class Retention(Struct, frozen=True):
    """How long a run is kept after its end, from `"1s"` to ten years.

    `completed` applies to completed, cancelled and skipped runs, `failed` to failed and expired
    ones. None is the app's age, or else the engine's: 24 hours and 7 days.
    """

    completed: Span | None = None
    failed: Span | None = None


def ages(given: Span | Retention | None, field: str) -> RetentionPolicy:
    """A single span applies after any end."""
    both = given if isinstance(given, Retention) else Retention(given, given)
    return RetentionPolicy(
        _age(both.completed, f"{field}.completed", given),
        _age(both.failed, f"{field}.failed", given),
    )


def merged(own: RetentionPolicy, app: RetentionPolicy) -> RetentionPolicy | None:
    """The task's ages, and the app's where the task has none."""
    found = RetentionPolicy(
        app.completed_ms if own.completed_ms is None else own.completed_ms,
        app.failed_ms if own.failed_ms is None else own.failed_ms,
    )
    return None if found == RetentionPolicy() else found


def age_ms(span: Span, field: str) -> int:
    found = millis(span, field)
    if found < SHORTEST_MS:
        raise ConfigError(
            f"{field}: at least 1s, so that a result can be read before it is removed; "
            f"got {span!r:.80}"
        )
    return found


def _age(span: Span | None, field: str, given: object) -> int | None:
    return (
        None
        if span is None
        else age_ms(span, field if isinstance(given, Retention) else field.rpartition(".")[0])
    )
