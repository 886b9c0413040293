"""Options of tasks, schedules and submissions. Each is declared here once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from msgspec import Struct

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import ConfigError, ValidationError, ValidationKind
from flowfabric.ids import tag_key_is_valid
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.policy import TASK, RetentionPolicy
from flowfabric.rules.workers.task_submission import dated
from flowfabric.sdk.durations import Span, millis

if TYPE_CHECKING:
    from flowfabric.engine.protocol import EngineProtocol
    from flowfabric.sdk.exceptions import Retry

SHORTEST_RETENTION_MS = 1_000
OVERTIME_MS = 1_000
"""The worker stops a task at its timeout; the engine does so this much later."""
CatchUp = Literal["skip", "one", "all"]


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
    if found < SHORTEST_RETENTION_MS:
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


class TaskOptions(TypedDict, total=False):
    """Options of `@app.task(...)`; `App.task` describes them."""

    name: str | None
    lane: str
    version: int
    retry: Retry | None
    timeout: Span | None
    priority: int
    requires: Iterable[str]
    quota: str | None
    retention: Span | Retention | None


class ScheduleOptions(TypedDict, total=False):
    """Options of `@app.schedule(...)`; `App.schedule` describes them."""

    name: str | None
    catch_up: CatchUp
    paused: bool
    arguments: Mapping[str, Any]


def checked_tags(tags: Mapping[str, str]) -> Mapping[str, str]:
    """Applies the rule that later changes of tags are held to."""
    for key in tags:
        if not tag_key_is_valid(key):
            raise ValidationError(
                ValidationKind.INVALID_TAG_KEY,
                f"tags: {key!r:.80}: owner.name in lower case is accepted",
            )
    return tags


def check_options(where: str, given: Iterable[str], accepted: Collection[str]) -> None:
    unknown = sorted(name for name in given if name not in accepted)
    if unknown:
        raise ConfigError(
            f"{where}: {', '.join(unknown)}: unknown option; accepted are {', '.join(accepted)}"
        )


class Options(Struct, frozen=True):
    """Options of one submission; `Task.submit` describes them."""

    key: str | None = None
    key_ttl: Span | None = None
    delay: Span | None = None
    priority: int | None = None
    tags: Mapping[str, str] = {}
    deadline: Span | None = None
    lane: str | None = None
    requires: Iterable[str] = ()
    connection: Any = None

    @classmethod
    def taken_from(cls, kwargs: dict[str, object]) -> Options:
        """Removes the options from the keyword arguments of a submission."""
        own: dict[str, Any] = {name: kwargs.pop(name) for name in SUBMIT_OPTIONS & kwargs.keys()}
        return cls(**own)

    def check_member(self, where: str, kind: str) -> None:
        """For a run that is created together with others: a child, or a node of a flow."""
        if self.key is not None or self.key_ttl is not None or self.connection is not None:
            raise ConfigError(
                f"{where}: key, key_ttl, connection: not accepted for a {kind}; "
                "submit() accepts them"
            )

    def dated(self, made: CreateExecutionArgs, now_ms: int) -> CreateExecutionArgs:
        """Resolves `delay` and `deadline` against this time."""
        delay = None if self.delay is None else millis(self.delay, "delay")
        deadline = None if self.deadline is None else millis(self.deadline, "deadline")
        return dated(made, delay, deadline, now_ms)

    async def dated_by(
        self, engine: EngineProtocol, made: CreateExecutionArgs
    ) -> CreateExecutionArgs:
        """Resolves them against the store's clock, where the engine has a store."""
        is_dated = self.delay is not None or self.deadline is not None
        if not is_dated or not isinstance(engine, LocalEngineProtocol):
            return made
        return self.dated(made, await engine.store.now_ms())


SUBMIT_OPTIONS = frozenset(Options.__struct_fields__)


def capability_of(task: str) -> str:
    """The capability that a run of this task requires, and a worker with the task offers."""
    return f"{TASK}{task}"
