"""`flowfabric tasks`: the tasks that workers have declared."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any
from uuid import UUID

import typer
from msgspec import to_builtins
from rich.text import Text
from typer.core import TyperGroup

from flowfabric.cli import tables, text
from flowfabric.cli.database import Database
from flowfabric.cli.exits import CommandError, Exit
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.model.policy import RetryPolicy
from flowfabric.model.quota import QuotaLimits
from flowfabric.model.task import JsonSchema, TaskDeclaration, TaskInfo, TaskSummary
from flowfabric.sdk.exceptions import UnknownTask
from flowfabric.sdk.known_task import known_task
from flowfabric.sdk.options import OVERTIME_MS, capability_of

COLUMNS = ("task", "lane", "version", "workers", "seen", "description")
PAGE = 1_000
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the task.")]
Namespace = Annotated[str, typer.Option(metavar="NAME", help="The namespace.")]


class ListByDefault(TyperGroup):
    """A group whose command `list` runs when none is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        if not args or (first.startswith("-") and first not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def list_tasks(
    database: Database, namespace: Namespace = "default", as_json: text.JsonLines = False
) -> int:
    """Lists the tasks that workers have declared, by name."""
    now_ms, found = database.read(lambda engine: _listed(engine, namespace))
    if as_json:
        for each in found:
            text.print_json(to_builtins(each))
        return Exit.DONE
    if not found:
        text.show(f"no task is registered in namespace {text.clean(namespace)}")
        return Exit.DONE
    tables.print_table(COLUMNS, [_row(each, now_ms) for each in found])
    return Exit.DONE


def show_task(
    name: Name,
    database: Database,
    namespace: Namespace = "default",
    as_json: text.Json = False,
) -> int:
    """Shows the signature of a task, its arguments, and what a submission applies."""
    now_ms, found, limits = database.read(lambda engine: _facts(engine, namespace, name))
    if as_json:
        text.print_json(to_builtins(found))
        return Exit.DONE
    task = found.declaration
    text.show(Text.assemble((text.clean(task.name), "bold"), text.clean(task.signature)))
    if task.description:
        text.show(*(f"  {line}" for line in text.clean_lines(task.description).splitlines()))
    text.show("", *(f"  {label:<10}  {value}" for label, value in _lines(found, limits, now_ms)))
    if task.arguments is not None and (properties := task.arguments.get("properties")):
        required = task.arguments.get("required", ())
        rows = [_argument(each, kind, each in required) for each, kind in properties.items()]
        text.show("", Text("arguments", "bold"))
        tables.print_table(("name", "type", "default"), rows)
    return Exit.DONE


def forget_task(name: Name, database: Database, namespace: Namespace = "default") -> int:
    """Removes a task that no worker serves any more from the registry, with its limit."""
    if not database.write(lambda engine: engine.forget_task(namespace, name)):
        raise CommandError(Exit.NOT_FOUND, f"{name}: no such task in namespace {namespace}")
    text.show(f"removed task {text.clean(name)} from the registry")
    return Exit.DONE


async def task_of(engine: EngineProtocol, namespace: str, name: str) -> TaskInfo:
    try:
        return await known_task(engine, namespace, name)
    except UnknownTask as error:
        raise CommandError(Exit.NOT_FOUND, str(error)) from None


async def _listed(engine: EngineProtocol, namespace: str) -> tuple[int, list[TaskSummary]]:
    found: list[TaskSummary] = []
    cursor: str | None = None
    while True:
        page = await engine.list_tasks(namespace, PAGE, cursor)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return await engine.server_time_ms(), found


async def _facts(
    engine: EngineProtocol, namespace: str, name: str
) -> tuple[int, TaskInfo, QuotaLimits | None]:
    found = await task_of(engine, namespace, name)
    quota = found.declaration.policy.quota_policy_id
    limits = None if quota is None else await engine.read_quota_policy_limits(UUID(quota))
    return await engine.server_time_ms(), found, limits


def _row(each: TaskSummary, now_ms: int) -> tuple[tables.Cell, ...]:
    seen = "now" if each.workers else tables.ago(each.last_seen_ms, now_ms)
    version = str(each.version) if each.version else each.fingerprint[:8]
    return (each.name, each.lane_id, version, each.workers, seen, each.description)


def _lines(found: TaskInfo, limits: QuotaLimits | None, now_ms: int) -> list[tuple[str, str]]:
    task = found.declaration
    policy, version = task.policy, f"{task.version}  " if task.version else ""
    own = capability_of(task.name)
    facts = (
        ("namespace", found.namespace),
        ("lane", task.lane_id),
        ("version", f"{version}{found.fingerprint}"),
        ("priority", str(policy.priority) if policy.priority else ""),
        ("retries", _retries(policy.retry_policy)),
        ("timeout", _span(policy.attempt_timeout_ms, -OVERTIME_MS)),
        ("requires", ", ".join(each for each in policy.required_capabilities if each != own)),
        ("quota", _quota(task, limits)),
        ("kept", _span(policy.retention_ttl_ms)),
        ("codec", "arguments are encoded; only an App with the codec submits it" * task.sealed),
        ("workers", str(found.workers)),
        ("last seen", tables.ago(found.last_seen_ms, now_ms) if not found.workers else ""),
        ("changed", text.utc(found.changed_at_ms)),
    )
    return [(label, text.clean(value)) for label, value in facts if value]


def _span(ms: int | None, shift: int = 0) -> str:
    return "" if ms is None else tables.span(ms + shift)


def _retries(policy: RetryPolicy | None) -> str:
    if policy is None:
        return ""
    kind = policy.backoff.get("type", "")
    return f"{policy.max_retries}{f', {kind} backoff' if kind else ''}"


def _quota(task: TaskDeclaration, limits: QuotaLimits | None) -> str:
    if limits is None:
        return ""
    rate, per = limits.max_requests_per_window, limits.requests_per_window_seconds
    cap = limits.active_concurrency_cap
    said = [f"{rate:,} per {per} s"] * bool(rate) + [f"{cap:,} at once"] * bool(cap)
    return " ".join(each for each in (task.quota, ", ".join(said)) if each)


def _argument(name: str, schema: JsonSchema, required: bool) -> tuple[tables.Cell, ...]:
    default = "required" if required else ""
    if "default" in schema:
        default = text.clean(json.dumps(schema["default"]))
    return (name, type_text(schema), default)


def type_text(schema: object) -> str:
    """A short text for a schema."""
    if not isinstance(schema, dict):
        return "any"
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2].rpartition(".")[2]
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(type_text(each) for each in schema[word]))
    if "enum" in schema:
        return " or ".join(json.dumps(each) for each in schema["enum"])
    kind = schema.get("type", "any")
    kinds = kind if isinstance(kind, list) else [kind]
    if kinds == ["array"] and "items" in schema:
        return f"array of {type_text(schema['items'])}"
    return " or ".join(map(str, kinds)) + (f" ({schema['format']})" if "format" in schema else "")


COMMANDS: dict[str, Callable[..., int]] = {
    "list": list_tasks,
    "show": show_task,
    "forget": forget_task,
}
