"""Conditions on runs, as users write them, and the filter of the engine that they become."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict
from uuid import UUID

from flowfabric.errors import ConfigError, invalid
from flowfabric.ids import parse_uuid
from flowfabric.model.search import ExecutionFilter
from flowfabric.model.state import PublicState
from flowfabric.sdk.durations import Span, millis
from flowfabric.sdk.flow_handle import Flow
from flowfabric.sdk.options import check_options
from flowfabric.sdk.run import Run, run_id
from flowfabric.sdk.task import AnyTask, Task

if TYPE_CHECKING:
    from flowfabric.sdk.app import App

Moment = Span | datetime | None
When = Moment | tuple[Moment, Moment]
"""A span before now, a datetime, or a pair of these: from and before."""
_WHEN = (
    'a span such as "1h" (within the last hour), a datetime (since then), or a pair of these '
    "(from, before)"
)


class PlainFilter(TypedDict, total=False):
    """The conditions of a `RunFilter` that name no object of the SDK."""

    state: str | Iterable[str]
    lane: str
    tag: str
    namespace: str | None
    worker: str
    created: When
    ended: When
    error: str
    key: str


class RunFilter(PlainFilter, total=False):
    """All conditions must hold.

    - `state`: one public state or several, such as `"failed"`.
    - `task`: a declared task or the name of one.
    - `tag`: a key, or `key=value`.
    - `namespace`: default that of the app; None for all.
    - `parent`: the run whose children are wanted. `flow`: the flow whose members are wanted.
    - `worker`: the id of the worker, or of its process, that runs it now.
    - `created`, `ended`: a span (`"1h"`: within the last hour), a datetime (since then), or a pair
      of these (from, before). A datetime without a zone is local time.
    - `error`: the type of the exception, or the beginning of the failure's text.
    - `key`: the key it was submitted with; needs `task`, because a key belongs to a task.
    """

    task: AnyTask | str
    parent: Run[Any] | str
    flow: Flow | UUID | str


_ACCEPTED = (*PlainFilter.__annotations__, "task", "parent", "flow")


async def filter_of(app: App, where: str, given: Mapping[str, Any]) -> ExecutionFilter:
    """The conditions as the engine takes them. `where` is the call, for errors."""
    check_options(where, given, _ACCEPTED)
    made = {name: given[name] for name in ("lane", "tag", "worker", "error") if name in given}
    task = _task_name(given["task"]) if given.get("task") is not None else None
    if given.get("key") is not None:
        if task is None:
            raise ConfigError("key: give task=... as well; a key belongs to a task")
        made["key"] = f"{task}:{given['key']}"
    made["state"] = _states(given.get("state"))
    made["namespace"] = given.get("namespace", app.namespace)
    if given.get("parent") is not None:
        parent = given["parent"]
        run = parent if isinstance(parent, Run) else Run(app, run_id(parent, "parent"))
        made["parent"] = await run.resolve()
    if given.get("flow") is not None:
        made["flow"] = flow_id_of(given["flow"])
    for field in ("created", "ended"):
        low, high = _pair(given.get(field), field)
        made[f"{field}_from"] = await _time_ms(app, low, field)
        made[f"{field}_before"] = await _time_ms(app, high, field)
    return ExecutionFilter(task=task, **made)


def flow_id_of(given: object, field: str = "flow") -> UUID:
    if isinstance(given, Flow):
        return given.id
    try:
        return given if isinstance(given, UUID) else parse_uuid(str(given))
    except ValueError:
        raise invalid(field, "a Flow, or the id of one", given) from None


def _task_name(task: object) -> str:
    if isinstance(task, Task):
        return task.name
    if isinstance(task, str):
        return task
    raise invalid("task", "a declared task or the name of one", task)


def _states(given: object) -> tuple[PublicState, ...]:
    if given is None:
        return ()
    several = [given] if isinstance(given, str) else given
    try:
        return tuple(PublicState(each) for each in several)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise invalid("state", f"one or more of {', '.join(PublicState)}", given) from None


def _pair(given: object, field: str) -> tuple[object, object]:
    if not isinstance(given, tuple | list):
        return given, None
    if len(given) != 2:
        raise invalid(field, _WHEN, given)
    return given[0], given[1]


async def _time_ms(app: App, moment: Any, field: str) -> int | None:
    """Spans are subtracted from the store's time."""
    if moment is None:
        return None
    if isinstance(moment, datetime):
        return round(moment.timestamp() * 1_000)
    try:
        span_ms = millis(moment, field)
    except ConfigError:
        raise invalid(field, _WHEN, moment) from None
    return await (await app.engine()).server_time_ms() - span_ms
