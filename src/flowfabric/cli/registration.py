"""Makes typer commands of functions that return an exit code.

A function with a parameter `database: Database` gets the options `--db` and `--token`. One with a
parameter `token` of its own reads the token of a server from the environment.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from flowfabric.cli.database import ACCEPTED, TOKEN_VARIABLE, URL_VARIABLE, Database

Parameter = inspect.Parameter
_DB = Parameter(
    "db",
    Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        str | None,
        typer.Option("--db", metavar="URL", help=f"{ACCEPTED}; else {URL_VARIABLE}."),
    ],
)
_TOKEN = Parameter(
    "token",
    Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        str | None,
        typer.Option("--token", help=f"The token of a server; else {TOKEN_VARIABLE}."),
    ],
)
_OLD = Parameter(
    "old_url",
    Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[str | None, typer.Argument(metavar="", hidden=True)],
)


def exits(run: Callable[..., int], *, old_url: bool = False) -> Callable[..., None]:
    """The command of a function. `old_url`: it accepts the URL as its last argument too."""
    parameters = inspect.signature(run, eval_str=True).parameters
    takes_database, has_own_token = "database" in parameters, "token" in parameters

    @wraps(run)
    def command(**given: Any) -> None:
        if takes_database:
            token = None if has_own_token else given.pop("token")
            given["database"] = Database(given.pop("db"), token, given.pop("old_url", None))
        raise typer.Exit(run(**given))

    shown = [
        each.replace(kind=Parameter.KEYWORD_ONLY)
        for name, each in parameters.items()
        if name != "database"
    ]
    if takes_database:
        shown += [*([_OLD] if old_url else []), _DB, *([] if has_own_token else [_TOKEN])]
    command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in shown}
    del command.__wrapped__
    return command
