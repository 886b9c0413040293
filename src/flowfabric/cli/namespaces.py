"""`flowfabric namespaces`: the namespaces of a deployment, and their removal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Annotated

import typer

from flowfabric.cli import tables, text
from flowfabric.cli.bulk_jobs import progress, report, run_to_end
from flowfabric.cli.database import Database
from flowfabric.cli.exits import CommandError, Exit
from flowfabric.cli.selection import confirm
from flowfabric.cli.user import current_user
from flowfabric.engine.cells.cells_engine import CellsEngine
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.model.bulk import BulkJob

Name = Annotated[str, typer.Argument(metavar="NAME", help="The namespace.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def list_namespaces(database: Database, as_json: text.JsonLines = False) -> int:
    """Lists the namespaces that have executions or a cell of their own, with their numbers."""
    sizes = database.read(_sizes)
    if as_json:
        for namespace, count in sorted(sizes.items()):
            text.print_json({"namespace": namespace, "executions": count})
    elif sizes:
        rows = [(text.clean(name), f"{count:,}") for name, count in sorted(sizes.items())]
        tables.print_table(("namespace", "executions"), rows)
    else:
        text.show("no executions")
    return Exit.DONE


async def _sizes(engine: EngineProtocol) -> Counter[str]:
    sizes: Counter[str] = Counter()
    if isinstance(engine, CellsEngine):
        sizes.update(dict.fromkeys(await engine.cells.names(), 0))
    for each in (await engine.count_executions()).counts:
        sizes[each.namespace] += each.count
    return sizes


def erase(name: Name, database: Database, yes: Yes = False) -> int:
    """Removes all that a namespace has: executions are cancelled first, then everything goes."""

    async def work(engine: EngineProtocol) -> BulkJob:
        held = sum(each.count for each in (await engine.count_executions(name)).counts)
        question = f"erase namespace {text.clean(name)!r} with {text.plural(held, 'execution')}?"
        if not confirm(question, yes=yes):
            raise CommandError(Exit.FAILED, "nothing was erased")
        job = await engine.erase_namespace(name, current_user())
        with progress("erasing", held) as bar:
            return await run_to_end(engine, job, lambda job: bar(job.changed))

    return report(database.write(work))


COMMANDS: dict[str, Callable[..., int]] = {"list": list_namespaces, "erase": erase}
