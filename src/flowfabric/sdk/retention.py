"""How long a run is kept after its end."""

from __future__ import annotations

from msgspec import Struct

from flowfabric.errors import ConfigError
from flowfabric.model.policy import RetentionPolicy
from flowfabric.sdk.durations import Span, millis

SHORTEST_MS = 1_000


class Retention(Struct, frozen=True):
    """The ages after which runs are removed: completed, cancelled and skipped ones; failed and expired ones.

    An age that is None is that of the app, else that of the engine: 24 hours and 7 days.
    """

    completed: Span | None = None
    failed: Span | None = None


def ages(given: Span | Retention | None, field: str) -> RetentionPolicy:
    """One span is the age after any end."""
    both = given if isinstance(given, Retention) else Retention(given, given)
    return RetentionPolicy(
        _age(both.completed, f"{field}.completed", given),
        _age(both.failed, f"{field}.failed", given),
    )


def merged(own: RetentionPolicy, app: RetentionPolicy) -> RetentionPolicy | None:
    """A task's ages, and the app's where it has none."""
    found = RetentionPolicy(
        app.completed_ms if own.completed_ms is None else own.completed_ms,
        app.failed_ms if own.failed_ms is None else own.failed_ms,
    )
    return None if found == RetentionPolicy() else found


def age_ms(span: Span, field: str) -> int:
    found = millis(span, field)
    if found < SHORTEST_MS:
        raise ConfigError(
            f"{field}: at least 1s, so that a result can be read before it is removed; got {span!r:.80}"
        )
    return found


def _age(span: Span | None, field: str, given: object) -> int | None:
    return (
        None
        if span is None
        else age_ms(span, field if isinstance(given, Retention) else field.rpartition(".")[0])
    )
