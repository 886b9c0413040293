"""`flowfabric budgets` and `flowfabric quotas`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar
from uuid import UUID

import typer
from msgspec import to_builtins

from flowfabric.cli import tables, text
from flowfabric.cli.database import Database
from flowfabric.cli.exits import Exit
from flowfabric.cli.identify import not_found
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import NotFound
from flowfabric.ids import parse_uuid
from flowfabric.model.budget import BudgetStatus
from flowfabric.model.execution import Page
from flowfabric.model.quota import QuotaLimits
from flowfabric.sdk.durations import millis
from flowfabric.sdk.limits import budget_id, quota_id

T = TypeVar("T")
MAX_LISTED = 1_000
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The name in the App's namespace, or the uuid.")
]
Namespace = Annotated[str, typer.Option("--namespace", metavar="NAME", help="Its namespace.")]
Everywhere = Annotated[
    str | None, typer.Option("--namespace", metavar="NAME", help="Only this namespace.")
]


def list_budgets(
    database: Database, namespace: Everywhere = None, as_json: text.JsonLines = False
) -> int:
    """Lists the budgets with their usage and limits."""

    async def work(engine: EngineProtocol) -> list[BudgetStatus]:
        idents = await _all(engine.list_budgets, namespace)
        return [await engine.get_budget_status(ident) for ident in idents]

    found = database.read(work)
    for each in found if as_json else ():
        text.print_json(to_builtins(each))
    if not as_json and found:
        rows = [
            (
                each.budget_id,
                each.scope_id,
                each.breach_count,
                _reset_at(each),
                "; ".join(_dimensions(each)),
            )
            for each in found
        ]
        tables.print_table(("budget", "scope", "breaches", "reset", "used"), rows)
    elif not as_json:
        text.show("no budgets")
    return Exit.DONE


def _reset_at(status: BudgetStatus) -> str:
    return "never" if not status.next_reset_at else text.utc(int(status.next_reset_at))


def _dimensions(status: BudgetStatus) -> list[str]:
    names = sorted({*status.usage, *status.hard_limits, *status.soft_limits})
    return [
        f"{name} {status.usage.get(name, 0):,} of {_limit(status.hard_limits.get(name))}"
        for name in names
    ]


def _limit(value: int | None) -> str:
    return f"{value:,}" if value else "unlimited"


def show_budget(
    name: Name, database: Database, namespace: Namespace = "default", as_json: text.Json = False
) -> int:
    """Shows the usage and the limits of a budget."""
    ident = _named(name, lambda: budget_id(namespace, name))
    found = database.read(lambda engine: _known("budget", name, engine.get_budget_status(ident)))
    if as_json:
        text.print_json(to_builtins(found))
        return Exit.DONE
    text.show(f"budget {found.budget_id}, {text.clean(found.scope_type)} {found.scope_id}")
    rows = [
        (
            dimension,
            found.usage.get(dimension, 0),
            _limit(found.soft_limits.get(dimension)),
            _limit(found.hard_limits.get(dimension)),
        )
        for dimension in sorted({*found.usage, *found.hard_limits, *found.soft_limits})
    ]
    tables.print_table(("dimension", "used", "soft limit", "hard limit"), rows)
    text.show(f"reset: {_reset_at(found)}; breaches: {found.breach_count}")
    return Exit.DONE


def reset_budget(name: Name, database: Database, namespace: Namespace = "default") -> int:
    """Sets the usage of a budget to zero and releases what waits for it."""
    ident = _named(name, lambda: budget_id(namespace, name))
    database.write(lambda engine: _known("budget", name, engine.reset_budget(ident)))
    text.show(f"budget {text.clean(name)} is reset")
    return Exit.DONE


def list_quotas(
    database: Database, namespace: Everywhere = None, as_json: text.JsonLines = False
) -> int:
    """Lists the quotas with their limits."""

    async def work(engine: EngineProtocol) -> list[tuple[UUID, QuotaLimits | None]]:
        idents = await _all(engine.list_quotas, namespace)
        return [(ident, await engine.read_quota_policy_limits(ident)) for ident in idents]

    found = [(ident, limits) for ident, limits in database.read(work) if limits is not None]
    for ident, limits in found if as_json else ():
        text.print_json({"quota_policy_id": str(ident), **to_builtins(limits)})
    if not as_json and found:
        rows = [(str(ident), _rate(limits), _concurrency(limits)) for ident, limits in found]
        tables.print_table(("quota", "rate", "at once"), rows)
    elif not as_json:
        text.show("no quotas")
    return Exit.DONE


def _rate(limits: QuotaLimits) -> str:
    if not limits.max_requests_per_window:
        return "unlimited"
    return f"{limits.max_requests_per_window:,} in {limits.requests_per_window_seconds} s"


def _concurrency(limits: QuotaLimits) -> str:
    return _limit(limits.active_concurrency_cap)


def show_quota(
    name: Name, database: Database, namespace: Namespace = "default", as_json: text.Json = False
) -> int:
    """Shows the limits of a quota."""
    ident = _named(name, lambda: quota_id(namespace, name))
    found = database.read(lambda engine: engine.read_quota_policy_limits(ident))
    if found is None:
        raise not_found("quota", name)
    if as_json:
        text.print_json({"quota_policy_id": str(ident), **to_builtins(found)})
    else:
        text.show(f"quota {ident}")
        text.show(f"  rate     {_rate(found)}", f"  at once  {_concurrency(found)}")
    return Exit.DONE


def close_quota(
    name: Name,
    database: Database,
    duration: Annotated[str, typer.Option("--for", metavar="SPAN", help="How long.")],
    namespace: Namespace = "default",
) -> int:
    """Closes a quota for a while: it starts nothing."""
    ident, ms = _named(name, lambda: quota_id(namespace, name)), millis(duration, "--for")

    async def work(engine: EngineProtocol) -> int:
        until = await engine.server_time_ms() + ms
        await _known("quota", name, engine.close_quota(ident, until))
        return until

    text.show(f"quota {text.clean(name)} is closed until {text.utc(database.write(work))}")
    return Exit.DONE


def open_quota(name: Name, database: Database, namespace: Namespace = "default") -> int:
    """Opens a quota that was closed."""
    ident = _named(name, lambda: quota_id(namespace, name))
    database.write(lambda engine: _known("quota", name, engine.open_quota(ident)))
    text.show(f"quota {text.clean(name)} is open")
    return Exit.DONE


async def _known(kind: str, name: str, call: Awaitable[T]) -> T:
    try:
        return await call
    except NotFound:
        raise not_found(kind, name) from None


def _named(text: str, of_name: Callable[[], UUID]) -> UUID:
    try:
        return parse_uuid(text)
    except ValueError:
        return of_name()


async def _all(
    pages: Callable[[str | None, UUID | None, int], Awaitable[Page[UUID]]], namespace: str | None
) -> list[UUID]:
    found: list[UUID] = []
    cursor: Any = None
    while len(found) < MAX_LISTED:
        page = await pages(namespace, cursor, MAX_LISTED)
        found, cursor = found + page.items, page.next_cursor
        if cursor is None:
            break
    return found


BUDGET_COMMANDS: dict[str, Callable[..., int]] = {
    "list": list_budgets,
    "show": show_budget,
    "reset": reset_budget,
}
QUOTA_COMMANDS: dict[str, Callable[..., int]] = {
    "list": list_quotas,
    "show": show_quota,
    "close": close_quota,
    "open": open_quota,
}
