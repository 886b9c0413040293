"""What a submission of a declared task creates, and the check of its arguments."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import structs

from flowfabric.errors import Conflict, ConflictKind, ValidationError, bad_input
from flowfabric.model.execution import Created, CreateExecutionArgs, Duplicate
from flowfabric.model.policy import RoutingRequirements
from flowfabric.model.task import JsonSchema, Submission, TaskDeclaration
from flowfabric.rules.waits.payload_schema import difference

MAX_NAMED = 20
Arguments = Mapping[str, Any]


def creation(task: TaskDeclaration, wanted: Submission) -> CreateExecutionArgs:
    """The execution of a submission: the declaration, and what the submission overrides."""
    policy = task.policy
    if wanted.priority is not None and wanted.priority != policy.priority:
        policy = structs.replace(policy, priority=wanted.priority)
    if wanted.key_ttl_ms is not None:
        policy = structs.replace(policy, dedup_window_ms=wanted.key_ttl_ms)
    if wanted.requires:
        every = {*policy.required_capabilities, *wanted.requires}
        routing = policy.routing_requirements or RoutingRequirements()
        routing = structs.replace(routing, required_capabilities=tuple(sorted(every)))
        policy = structs.replace(policy, routing_requirements=routing)
    return CreateExecutionArgs(
        execution_id=wanted.execution_id,
        lane_id=wanted.lane_id or task.lane_id,
        namespace=wanted.namespace,
        execution_kind=task.name,
        input_payload=wanted.payload,
        payload_encoding="json",
        priority=policy.priority,
        creator_identity=wanted.creator,
        idempotency_key=None if wanted.key is None else f"{task.name}:{wanted.key}",
        key_digest=wanted.key_digest,
        tags=wanted.tags,
        policy=policy,
    )


def open_creation(
    task: TaskDeclaration,
    wanted: Submission,
    delay_ms: int | None,
    deadline_ms: int | None,
    now_ms: int,
) -> CreateExecutionArgs:
    """The execution of a submission whose payload is a JSON object that nothing has checked."""
    check_open(task)
    arguments = checked_arguments(task, wanted.payload)
    if wanted.key is not None:
        wanted = structs.replace(wanted, key_digest=key_digest(task, arguments))
    elif wanted.key_ttl_ms is not None:
        raise bad_input("key_ttl: the lifetime of a key; give a key as well")
    return dated(creation(task, wanted), delay_ms, deadline_ms, now_ms)


def check_same(answer: Created | Duplicate, made: CreateExecutionArgs, key: str | None) -> None:
    """Raises if the key belongs to a run with other arguments."""
    if isinstance(answer, Duplicate) and answer.key_digest not in (None, made.key_digest):
        ident = answer.execution_id
        text = f"key {key!r:.80} belongs to run {ident.uuid}, with other arguments; use another key"
        raise Conflict(ConflictKind.UNIQUE, text, existing=ident)


def dated(
    made: CreateExecutionArgs, delay_ms: int | None, deadline_ms: int | None, now_ms: int
) -> CreateExecutionArgs:
    """Resolves spans of a submission against the time."""
    if delay_ms is None and deadline_ms is None:
        return made
    return structs.replace(
        made,
        delay_until=None if delay_ms is None else now_ms + delay_ms,
        execution_deadline_at=None if deadline_ms is None else now_ms + deadline_ms,
    )


def checked_arguments(task: TaskDeclaration, data: bytes) -> Arguments:
    """The arguments by name. Raises for the first one that does not fit the declaration."""
    where = f"task {task.name}"
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_input(f"{where}: arguments: JSON is accepted: {error}") from None
    if not isinstance(found, dict):
        raise bad_input(f'{where}: arguments: an object by name, such as {{"x": 1}}, is accepted')
    reserved = next((name for name in found if name.startswith("$")), None)
    if reserved is not None:
        raise bad_input(
            f"{where}: arguments.{reserved[:80]}: a name that begins with $ is reserved"
        )
    wrong = None if task.arguments is None else difference(task.arguments, found, "arguments")
    if wrong is not None:
        raise bad_input(f"{where}: {wrong}")
    return found


def check_open(task: TaskDeclaration) -> None:
    """Raises for a task whose arguments only its app can encode."""
    if task.sealed:
        raise sealed(task.name)


def sealed(task: str) -> ValidationError:
    return bad_input(
        f"task {task}: its app encodes arguments with a codec, such as encryption, which is not "
        "known here; submit it with App(..., codec=...) and the same codec"
    )


def key_digest(task: TaskDeclaration, arguments: Arguments) -> str:
    """Equal for equal arguments; an argument that equals its default does not count."""
    properties: Mapping[str, Any] = (task.arguments or {}).get("properties", {})
    given, defaults = {}, {}
    for name, value in arguments.items():
        schema = properties.get(name, {})
        given[name] = _canonical(value, schema)
        if "default" in schema:
            defaults[name] = _canonical(schema["default"], schema)
    return digest(task.name, given, defaults)


def digest(task: str, given: Mapping[str, bytes], defaults: Mapping[str, bytes | None]) -> str:
    """Of the canonical JSON of each argument."""
    stated = [(name, given[name]) for name in sorted(given) if defaults.get(name) != given[name]]
    return hashlib.sha256(repr((task, stated)).encode()).hexdigest()[:32]


def _canonical(value: object, schema: JsonSchema) -> bytes:
    if schema.get("type") == "number" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    return msgspec.json.encode(value, order="deterministic")


def unknown_task(name: str, namespace: str, known: Sequence[str]) -> str:
    """The text for a name that is not registered. `known` may be longer than what is shown."""
    shown = ", ".join(known[:MAX_NAMED]) or "none"
    more = ", and more" if len(known) > MAX_NAMED else ""
    return (
        f"task {name!r:.80} is not registered in namespace {namespace!r}; registered: "
        f"{shown}{more}. A worker registers its tasks when it starts"
    )
