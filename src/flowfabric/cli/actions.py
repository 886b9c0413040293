"""The actions on executions: each on ids, or on all that match the filters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer
from msgspec import Struct

from flowfabric.cli import text
from flowfabric.cli.bulk_jobs import DONE_WORDS, progress, run_bulk
from flowfabric.cli.database import Database
from flowfabric.cli.exits import CommandError, Exit, code_of, print_error, words_of
from flowfabric.cli.identify import execution_of
from flowfabric.cli.runs import pages
from flowfabric.cli.selection import Selection
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import EngineError, FlowFabricError
from flowfabric.ids import ExecutionId
from flowfabric.model.bulk import BulkAction, BulkArgs
from flowfabric.model.execution import (
    CancelExecutionArgs,
    ChangePriorityArgs,
    ReplayExecutionArgs,
)
from flowfabric.model.lease import RevokeLeaseArgs
from flowfabric.model.search import ExecutionFilter

Act = Callable[[EngineProtocol, ExecutionId], Awaitable[object]]
RETRIED = ("failed", "expired")
MAX_EACH = 10_000
Priority = Annotated[
    int, typer.Option("--to", metavar="N", help="The new priority; higher runs earlier.")
]
Lane = Annotated[str, typer.Option("--to", metavar="LANE", help="The new lane.")]
Step = Annotated[
    str,
    typer.Option("--from", metavar="STEP", help="The name of the step, or its position from 0."),
]


class Account(Struct):
    """What an action on single executions has done so far."""

    word: str
    done: int = 0
    failed: int = 0
    code: int = Exit.DONE

    def report(self, *, interrupted: bool = False) -> int:
        rest = f"; {self.failed:,} refused" if self.failed else ""
        stop = "; interrupted" if interrupted else ""
        text.show(f"{self.word} {text.plural(self.done, 'execution')}{rest}{stop}")
        if interrupted:
            return Exit.INTERRUPTED
        return Exit.PARTLY_DONE if self.failed and self.done else self.code


def cancel(selection: Selection, database: Database) -> int:
    """Cancels executions that have not ended."""

    async def act(engine: EngineProtocol, ident: ExecutionId) -> None:
        await engine.cancel_execution(
            CancelExecutionArgs(execution_id=ident, reason=selection.reason)
        )

    return _act(selection, database, BulkAction.CANCEL, act)


def retry(selection: Selection, database: Database) -> int:
    """Starts failed and expired executions again."""

    async def act(engine: EngineProtocol, ident: ExecutionId) -> None:
        found = await engine.read_execution_summary(ident)
        if found is not None and found.public_state not in RETRIED:
            raise CommandError(
                Exit.FAILED,
                f"it is {found.public_state}; retry takes failed and expired executions, "
                "replay every ended one",
            )
        await _replay(engine, ident, selection)

    return _act(selection, database, BulkAction.RETRY, act)


def replay(selection: Selection, database: Database) -> int:
    """Starts ended executions again, completed ones too."""
    return _act(
        selection,
        database,
        BulkAction.REPLAY,
        lambda engine, ident: _replay(engine, ident, selection),
    )


async def _replay(engine: EngineProtocol, ident: ExecutionId, selection: Selection) -> None:
    await engine.replay_execution(
        ReplayExecutionArgs(
            execution_id=ident, reason=selection.reason or None, requested_by=selection.who or None
        )
    )


def priority(to: Priority, selection: Selection, database: Database) -> int:
    """Changes the priority of executions that wait."""

    async def act(engine: EngineProtocol, ident: ExecutionId) -> None:
        await engine.change_priority(ChangePriorityArgs(execution_id=ident, new_priority=to))

    return _act(selection, database, BulkAction.PRIORITY, act, priority=to)


def move(to: Lane, selection: Selection, database: Database) -> int:
    """Moves executions that wait to another lane."""
    return _act(
        selection,
        database,
        BulkAction.MOVE,
        lambda engine, ident: engine.move_execution(ident, to, selection.who, selection.reason),
        lane=to,
    )


def release(selection: Selection, database: Database) -> int:
    """Ends a delay or a hold now."""
    return _act(
        selection,
        database,
        BulkAction.RELEASE,
        lambda engine, ident: engine.release_execution(ident, selection.who, selection.reason),
    )


def delete(selection: Selection, database: Database) -> int:
    """Deletes ended executions that nothing unfinished may read, with all their rows."""
    if selection.ids and not selection.dry_run:
        selection.confirm(f"delete {text.plural(len(selection.ids), 'execution')}?")
    return _act(
        selection,
        database,
        BulkAction.DELETE,
        lambda engine, ident: engine.delete_execution(ident, selection.who, selection.reason),
    )


def revoke(selection: Selection, database: Database) -> int:
    """Takes executions from their workers, so that others can claim them."""

    async def act(engine: EngineProtocol, ident: ExecutionId) -> None:
        await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident, reason=selection.reason))

    return _each(selection, database, "revoke", "revoked", act)


def restart(step: Step, selection: Selection, database: Database) -> int:
    """Replays ended executions from a step on; later steps run again."""
    wanted: str | int = int(step) if step.isascii() and step.isdigit() else step

    async def act(engine: EngineProtocol, ident: ExecutionId) -> None:
        await engine.restart_from_step(ident, wanted, selection.who, selection.reason)

    return _each(selection, database, "restart", "restarted", act)


def _act(
    selection: Selection,
    database: Database,
    action: BulkAction,
    act: Act,
    *,
    priority: int | None = None,
    lane: str | None = None,
) -> int:
    selection.check(action)
    if selection.ids:
        return _each(selection, database, action, DONE_WORDS[action], act)
    args = BulkArgs(action=action, where=ExecutionFilter(), priority=priority, lane=lane)
    return run_bulk(database, selection, args)


def _each(selection: Selection, database: Database, command: str, word: str, act: Act) -> int:
    """One execution after the other; what is refused does not stop the rest."""
    selection.check(command)
    account = Account(word)

    async def work(engine: EngineProtocol) -> None:
        named = selection.ids or await _matching(engine, selection)
        if selection.dry_run:
            await _check_each(engine, named, command, account)
            return
        if not selection.ids and named:
            selection.confirm(f"{command} {text.plural(len(named), 'execution')}?")
        with progress(command, len(named)) as bar:
            for at, each in enumerate(named):
                await _one(engine, each, act, account)
                bar(at + 1)

    try:
        database.write(work)
    except KeyboardInterrupt:
        return account.report(interrupted=True)
    return account.report()


async def _one(engine: EngineProtocol, name: str, act: Act, account: Account) -> None:
    try:
        await act(engine, await execution_of(engine, name))
        account.done += 1
    except (EngineError, CommandError) as error:
        _refused(name, error, account)


async def _check_each(
    engine: EngineProtocol, named: tuple[str, ...], command: str, account: Account
) -> None:
    account.word = f"dry run, nothing was changed: would {command}"
    for each in named:
        try:
            await execution_of(engine, each)
            account.done += 1
        except (EngineError, CommandError) as error:
            _refused(each, error, account)


def _refused(name: str, error: FlowFabricError, account: Account) -> None:
    """An unreachable store ends the command."""
    code = code_of(error)
    if code in (Exit.UNREACHABLE, Exit.UNAUTHORIZED):
        raise error
    account.failed += 1
    account.code = code if account.failed == 1 else Exit.FAILED
    said = words_of(error)
    print_error(said if said.startswith(name) else f"{name}: {said}")


async def _matching(engine: EngineProtocol, selection: Selection) -> tuple[str, ...]:
    where = await selection.filters.resolve(engine)
    found = [str(each.id) async for page in pages(engine, where, MAX_EACH + 1) for each in page]
    if len(found) > MAX_EACH:
        raise CommandError(
            Exit.FAILED,
            f"more than {MAX_EACH:,} executions match; narrow the filters, nothing was changed",
        )
    return tuple(found)
