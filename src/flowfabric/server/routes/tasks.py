"""Routes of declared tasks: the registry, and submissions by the name of a task."""

from __future__ import annotations

from uuid import UUID

import msgspec
from msgspec import Struct

from flowfabric.errors import NotFound
from flowfabric.ids import ExecutionId, lane_id
from flowfabric.ids import name as checked_name
from flowfabric.model.execution import Created, CreateExecutionArgs
from flowfabric.model.policy import check_capability_tokens
from flowfabric.model.task import Submission, TaskDeclaration, TaskInfo
from flowfabric.rules.workers import task_submission as rules
from flowfabric.sdk.durations import millis
from flowfabric.sdk.exceptions import UnknownTask
from flowfabric.sdk.known_task import known_task
from flowfabric.server import route
from flowfabric.server.policies import I32, PageLimit
from flowfabric.server.route import ApiRequest, Reply, RouteGroup
from flowfabric.server.routes.executions import LaneName
from flowfabric.server.tenancy import Forbidden
from flowfabric.wire.operations import Bound, Role

routes = RouteGroup(tag="tasks", role=Role.READ, bound=Bound.NAMESPACE)


class Namespaced(Struct, frozen=True):
    namespace: str = "default"


class TasksQuery(Namespaced, frozen=True):
    cursor: str = ""
    limit: PageLimit = 100


@routes("GET", "/v1/tasks")
async def listed(request: ApiRequest, query: TasksQuery) -> object:
    """Lists the tasks that workers have declared, with the number of live workers of each."""
    return await request.engine.list_tasks(query.namespace, query.limit, query.cursor or None)


@routes("GET", "/v1/tasks/{name}", answers={200: TaskInfo})
async def info(request: ApiRequest, query: Namespaced) -> TaskInfo:
    """A declared task with the JSON schema of its arguments and of its result."""
    return await _known(request, query.namespace)


class Forgotten(Struct, frozen=True):
    forgotten: bool


@routes("POST", "/v1/tasks/{name}/forget", role=Role.OPERATE, answers={200: Forgotten})
async def forget(request: ApiRequest, query: Namespaced) -> Forgotten:
    """Removes a task from the registry. A live worker that serves it registers it again."""
    name = request.path["name"]
    return Forgotten(await request.engine.forget_task(query.namespace, name))


class NewRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`arguments` is an object by name. What is missing is that of the declaration.

    `delay`, `deadline` and `key_ttl` are spans such as "5m", or numbers of seconds.
    """

    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    namespace: str = "default"
    lane: LaneName | None = None
    priority: I32 | None = None
    requires: list[str] = []
    tags: dict[str, str] = {}
    key: str | None = None
    key_ttl: str | float | None = None
    delay: str | float | None = None
    deadline: str | float | None = None


class Submitted(Struct, frozen=True):
    """`run` is the short form of `execution_id`. `created` is false if the key has a run."""

    run: UUID
    execution_id: ExecutionId
    task: str
    created: bool


@routes(
    "POST",
    "/v1/tasks/{name}",
    role=Role.SUBMIT,
    limit=route.LARGE,
    answers={200: Submitted, 201: Submitted},
)
async def submit(request: ApiRequest, body: NewRun) -> Reply:
    """Submits a run of a declared task.

    The lane, retries, timeout, priority, quota, required capabilities and retention are those of
    the declaration. The arguments are checked against its schema. An unknown name is answered with
    404 and the known names.
    """
    task = (await _known(request, body.namespace)).declaration
    lanes, lane = request.caller.lanes, body.lane or task.lane_id
    if lanes is not None and lane not in lanes:
        raise Forbidden("lane")
    made = await _creation(request, task, body)
    answer = await request.engine.create_execution(made)
    rules.check_same(answer, made, body.key)
    is_new = isinstance(answer, Created)
    ident = answer.execution_id
    return Reply(201 if is_new else 200, Submitted(ident.uuid, ident, task.name, is_new))


async def _known(request: ApiRequest, namespace: str) -> TaskInfo:
    name = checked_name(request.path["name"], "task")
    try:
        return await known_task(request.engine, namespace, name)
    except UnknownTask as error:
        raise _unknown(str(error)) from None


def _unknown(text: str) -> NotFound:
    error = route.MissingEntity("task", "")
    error.message = text
    return error


async def _creation(
    request: ApiRequest, task: TaskDeclaration, body: NewRun
) -> CreateExecutionArgs:
    check_capability_tokens(body.requires, "requires")
    wanted = Submission(
        execution_id=ExecutionId.solo(lane_id(body.lane or task.lane_id)),
        namespace=body.namespace,
        payload=bytes(body.arguments),
        creator=request.caller.name,
        lane_id=body.lane,
        priority=body.priority,
        requires=tuple(body.requires),
        tags=request.server.telemetry.stamp(body.tags),
        key=body.key,
        key_ttl_ms=_span(body.key_ttl, "key_ttl"),
    )
    delay, deadline = _span(body.delay, "delay"), _span(body.deadline, "deadline")
    now = await request.engine.store.now_ms()
    return rules.open_creation(task, wanted, delay, deadline, now)


def _span(span: str | float | None, field: str) -> int | None:
    return None if span is None else millis(span, field)
