"""What is behind a row: the runs of a lane, a failure or a worker, and everything about a run."""

from __future__ import annotations

from rich.text import Text

from flowfabric.cli import history, why
from flowfabric.cli.text import clean, short, utc
from flowfabric.cli.top import build
from flowfabric.cli.top.collect import FAILING_MS
from flowfabric.cli.top.rows import Kind, Panel, Target, runs_of
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import ExecutionSnapshot
from flowfabric.model.search import ExecutionFilter
from flowfabric.model.state import PublicState

MAX_RUNS, MAX_HISTORY = 100, 200
_FAILED = (PublicState.FAILED, PublicState.EXPIRED, PublicState.DELAYED)


def title_of(target: Target) -> str:
    match target.kind:
        case Kind.LANE:
            return f"Runs of lane {clean(target.name)}, the newest first"
        case Kind.WORKER:
            return f"Runs that worker {clean(target.name)} holds"
        case _:
            return f"Failures of {clean(target.name)}: {clean(target.error)}"


async def read_runs(
    engine: EngineProtocol, target: Target, namespace: str | None, now_ms: int
) -> Panel:
    found = await engine.find_executions(_where(target, namespace, now_ms), MAX_RUNS)
    items = [
        each
        for each in found.items
        if target.kind is not Kind.FAILURE or build.error_type(each) == target.error
    ]
    return runs_of(items, now_ms)


def _where(target: Target, namespace: str | None, now_ms: int) -> ExecutionFilter:
    match target.kind:
        case Kind.LANE:
            return ExecutionFilter(namespace=namespace, lane=target.name)
        case Kind.WORKER:
            active = (PublicState.ACTIVE,)
            return ExecutionFilter(namespace=namespace, worker=target.name, state=active)
        case _:
            return ExecutionFilter(
                namespace=namespace,
                task=target.name,
                state=_FAILED,
                created_from=max(now_ms - 10 * FAILING_MS, 0),
            )


async def read_run(engine: EngineProtocol, ident: ExecutionId) -> list[Text]:
    """The state of a run, why it is not running, and its history."""
    explained = await engine.explain_execution(ident)
    lines = [*why.render(explained), Text(), Text("State", "bold underline")]
    found = await engine.describe_execution(ident)
    if found is not None:
        lines += [Text(f"  {name:<10} {value}") for name, value in _facts(found)]
    page = await engine.history(ident, MAX_HISTORY)
    timeline = history.Timeline()
    lines += [Text(), Text("History", "bold underline")]
    for entry in page.items:
        lines += history.render(entry, timeline, members=False)
    if page.next_cursor is not None:
        lines.append(
            Text(f"  the first {MAX_HISTORY}; `flowfabric history {short(ident)}` shows all", "dim")
        )
    return lines


def _facts(found: ExecutionSnapshot) -> list[tuple[str, str]]:
    facts = [
        ("state", str(found.public_state)),
        ("created", utc(found.created_at)),
        ("changed", utc(found.last_mutation_at)),
        ("attempts", str(found.total_attempt_count)),
    ]
    if found.flow_id is not None:
        facts.append(("flow", str(found.flow_id)))
    if found.current_lease is not None:
        lease = found.current_lease
        facts.append(("lease", f"{clean(lease.worker_instance_id)} until {utc(lease.expires_at)}"))
    facts += [("tag", clean(f"{key}={value}")) for key, value in found.tags.items()]
    return facts
