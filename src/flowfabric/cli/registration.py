"""Makes typer commands of functions that return an exit code.

Some parameters stand for several options, whose values the function gets as one object:

- `database: Database`: `--db` and `--token`. A function with a parameter `token` of its own reads
  the token of a server from the environment.
- `filters: Filters`: the filters of `flowfabric list`.
- `selection: Selection`: ids or filters, and the options of every action.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any

import typer

from flowfabric.cli.database import ACCEPTED, TOKEN_VARIABLE, URL_VARIABLE, Database
from flowfabric.cli.filters import FILTER_OPTIONS, Filters
from flowfabric.cli.selection import SELECTION_OPTIONS, Selection

SERVER_TOKEN = "server_token"  # noqa: S105 - the name of a parameter
_TEXT = str | None
_DB = Annotated[
    _TEXT,
    typer.Option("--db", metavar="URL", help=f"{ACCEPTED}; else {URL_VARIABLE}."),
]
_TOKEN = Annotated[
    _TEXT,
    typer.Option("--token", metavar="TEXT", help=f"The token of a server; else {TOKEN_VARIABLE}."),
]
_OLD = Annotated[_TEXT, typer.Argument(metavar="", hidden=True)]


def exits(run: Callable[..., int], *, old_url: bool = False) -> Callable[..., None]:
    """The command of a function. `old_url`: it accepts the URL as its last argument too."""
    parameters = inspect.signature(run, eval_str=True).parameters
    made = {name: _MADE[name] for name in _MADE if name in parameters}

    @wraps(run)
    def command(**given: Any) -> None:
        for name, make in made.items():
            given[name] = make(given)
        raise typer.Exit(run(**given))

    shown = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, each in parameters.items()
        if name not in made
    ]
    options: dict[str, Any] = {}
    if "filters" in made or "selection" in made:
        options |= FILTER_OPTIONS
    if "selection" in made:
        options = {**SELECTION_OPTIONS, **options}
    if "database" in made:
        options |= {"old_url": _OLD} if old_url else {}
        options |= {"db": _DB} if "token" in parameters else {"db": _DB, SERVER_TOKEN: _TOKEN}
    shown += _optional(options)
    command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in shown}
    del command.__wrapped__
    return command


def _optional(options: Mapping[str, Any]) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in options.items()
    ]


def _database(given: dict[str, Any]) -> Database:
    return Database(given.pop("db"), given.pop(SERVER_TOKEN, None), given.pop("old_url", None))


def _filters(given: dict[str, Any]) -> Filters:
    return Filters(**{name: given.pop(name) for name in FILTER_OPTIONS})


def _selection(given: dict[str, Any]) -> Selection:
    ids, reason, by = given.pop("ids"), given.pop("reason"), given.pop("by")
    return Selection(
        ids=tuple(ids or ()),
        filters=_filters(given),
        yes=bool(given.pop("yes")),
        dry_run=bool(given.pop("dry_run")),
        reason=reason or "",
        by=by or "",
    )


_MADE: dict[str, Callable[[dict[str, Any]], object]] = {
    "database": _database,
    "filters": _filters,
    "selection": _selection,
}
