"""`flowfabric submit`: submits a run of a declared task."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct

from flowfabric.cli import text
from flowfabric.cli.database import Database
from flowfabric.cli.exits import Exit
from flowfabric.cli.runs import print_result
from flowfabric.cli.tasks import Name, Namespace, task_of
from flowfabric.cli.user import current_user
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId, lane_id
from flowfabric.model.execution import Created
from flowfabric.model.task import JsonSchema, Submission, TaskDeclaration
from flowfabric.rules.workers.task_submission import check_same, open_creation
from flowfabric.sdk.durations import millis
from flowfabric.sdk.options import checked_tags
from flowfabric.sdk.serialization import MAX_PAYLOAD_BYTES

FOREVER_MS = 10 * 365 * 86_400_000
STDIN = "-"
_SPAN = 'A span such as "5m".'
_TEXT = str | None
Arg = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="NAME=VALUE",
        help="An argument; the value is JSON, or else text. May be repeated.",
    ),
]
JsonArgs = Annotated[_TEXT, typer.Option(metavar="JSON", help="All arguments as an object.")]
File = Annotated[
    _TEXT, typer.Option(metavar="FILE", help="A file with that object; - is standard input.")
]
Key = Annotated[_TEXT, typer.Option(help="The same key returns the existing execution.")]
Lane = Annotated[_TEXT, typer.Option(help="Instead of the task's own lane.")]
Priority = Annotated[int | None, typer.Option(metavar="N", help="Instead of the task's own.")]
Tag = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A tag. May be repeated.")]
Delay = Annotated[_TEXT, typer.Option(metavar="SPAN", help=f"Starts after this. {_SPAN}")]
Deadline = Annotated[_TEXT, typer.Option(metavar="SPAN", help=f"Expires after this. {_SPAN}")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end; print the result.")]
Timeout = Annotated[
    _TEXT, typer.Option(metavar="SPAN", help=f"With --wait: at most this long. {_SPAN}")
]


class Given(Struct, frozen=True):
    """The arguments of the task: `text` is a JSON object, `named` are `name=value`."""

    text: str | None
    named: tuple[tuple[str, str], ...]


class Overrides(Struct, frozen=True):
    """What the options say instead of the declaration."""

    lane: str | None
    priority: int | None
    key: str | None
    tags: Mapping[str, str]
    delay_ms: int | None
    deadline_ms: int | None


def run(
    name: Name,
    database: Database,
    arg: Arg = None,
    json_args: JsonArgs = None,
    file: File = None,
    key: Key = None,
    lane: Lane = None,
    priority: Priority = None,
    tag: Tag = None,
    delay: Delay = None,
    deadline: Deadline = None,
    namespace: Namespace = "default",
    wait: Wait = False,
    timeout: Timeout = None,
    as_json: text.Json = False,
) -> int:
    """Submits a run of a task that a worker has declared, and prints its id."""
    if timeout is not None and not wait:
        raise ConfigError("--timeout: it limits --wait; give --wait as well")
    wait_ms = FOREVER_MS if timeout is None else millis(timeout, "--timeout")
    given = _given(arg or (), json_args, file)
    overrides = Overrides(
        None if lane is None else str(lane_id(lane, "--lane")),
        priority,
        key,
        checked_tags(dict(_pair(each, "--tag", "KEY=VALUE") for each in tag or ())),
        None if delay is None else millis(delay, "--delay"),
        None if deadline is None else millis(deadline, "--deadline"),
    )
    ident, is_new = database.write(
        lambda engine: _submitted(engine, name, namespace, given, overrides)
    )
    if wait:
        return print_result(str(ident), database, wait_ms, as_json)
    if as_json:
        text.print_json({"id": text.short(ident), "execution": str(ident), "created": is_new})
    else:
        text.show(text.short(ident))
        if not is_new:
            print("the key has this execution already; nothing was submitted", file=sys.stderr)
    return Exit.DONE


async def _submitted(
    engine: EngineProtocol, name: str, namespace: str, given: Given, overrides: Overrides
) -> tuple[ExecutionId, bool]:
    task = (await task_of(engine, namespace, name)).declaration
    wanted = Submission(
        execution_id=ExecutionId.solo(overrides.lane or task.lane_id),
        namespace=namespace,
        payload=_payload(given, task),
        creator=(current_user() or "cli"),
        lane_id=overrides.lane,
        priority=overrides.priority,
        tags=overrides.tags,
        key=overrides.key,
    )
    now_ms = await engine.server_time_ms()
    made = open_creation(task, wanted, overrides.delay_ms, overrides.deadline_ms, now_ms)
    answer = await engine.create_execution(made)
    check_same(answer, made, overrides.key)
    return answer.execution_id, isinstance(answer, Created)


def _given(named: list[str] | tuple[()], json_args: str | None, file: str | None) -> Given:
    if json_args is not None and file is not None:
        raise ConfigError("--json-args and --file: only one of them is accepted")
    pairs = tuple(_pair(each, "--arg", "NAME=VALUE") for each in named)
    return Given(json_args if file is None else _read(file), pairs)


def _read(file: str) -> str:
    try:
        data = _data(file)
        if len(data) > MAX_PAYLOAD_BYTES:
            raise ConfigError(f"--file: at most {MAX_PAYLOAD_BYTES} bytes are accepted")
        return data.decode()
    except OSError as error:
        raise ConfigError(f"--file: {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--file: {file}: it is no UTF-8 text") from None


def _data(file: str) -> bytes:
    if file == STDIN:
        return sys.stdin.buffer.read(MAX_PAYLOAD_BYTES + 1)
    with Path(file).open("rb") as stream:
        return stream.read(MAX_PAYLOAD_BYTES + 1)


def _pair(text: str, option: str, accepted: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ConfigError(f"{option}: {accepted} is accepted, got {text!r:.80}")
    return name, value


def _payload(given: Given, task: TaskDeclaration) -> bytes:
    """The object of the arguments, in which those given by name come last."""
    whole = _object(given.text) if given.text is not None else {}
    properties: Mapping[str, JsonSchema] = (task.arguments or {}).get("properties", {})
    named = {name: _value(value, properties.get(name, {})) for name, value in given.named}
    return json.dumps({**whole, **named}, ensure_ascii=False).encode(errors="surrogateescape")


def _object(data: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--json-args, --file: a JSON object is accepted: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError('--json-args, --file: a JSON object such as {"x": 1} is accepted')
    return found


def _value(value: str, schema: JsonSchema) -> object:
    """JSON; what is no JSON is text, and so is a number for an argument that is text."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value
    is_text = schema.get("type") == "string" and not isinstance(found, str)
    return value if is_text else found
