"""`flowfabric tokens`: creates, lists, rotates and revokes the API tokens of a database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated
from uuid import UUID

import msgspec
import typer
from rich.table import Table

from flowfabric.cli.database import Database
from flowfabric.cli.exits import CommandError, Exit
from flowfabric.cli.text import Json, clean, console, print_json, show, utc
from flowfabric.cli.user import current_user
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.model.api_token import (
    ApiToken,
    CreateTokenArgs,
    IssuedToken,
    RevokeTokenArgs,
    Role,
    RotateTokenArgs,
)
from flowfabric.sdk.durations import millis

PAGE = 1_000
MIN_PREFIX = 8
MAX_CANDIDATES = 5
SHOWN_ONCE = "This text is not stored and cannot be shown again."
TokenArgument = Annotated[
    str, typer.Argument(metavar="TOKEN", help="The token's name, its id, or 8 digits of its id.")
]


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who or what uses the token.")],
    database: Database,
    role: Annotated[
        list[Role], typer.Option(help="read, submit, work, operate or admin; may be repeated.")
    ],
    namespace: Annotated[
        str | None, typer.Option(help="The only namespace it admits to; else all.")
    ] = None,
    lane: Annotated[
        list[str] | None, typer.Option(help="A lane it admits to, may be repeated; else all.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="SPAN", help="How long it is valid, such as 90d.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Creates a token and prints its text, once."""
    args = CreateTokenArgs(
        name=name,
        roles=role,
        namespace=namespace,
        lanes=lane or None,
        expires_in_ms=None if expires is None else millis(expires, "--expires"),
        by=current_user(),
    )
    _print_issued(database.write(lambda engine: engine.create_token(args)), as_json)
    return Exit.DONE


def rotate(
    token: TokenArgument,
    database: Database,
    grace: Annotated[
        str, typer.Option(metavar="SPAN", help="How long the former text stays valid.")
    ] = "0s",
    as_json: Json = False,
) -> int:
    """Gives a token a new text and prints it, once."""
    grace_ms = millis(grace, "--grace")

    async def work(engine: EngineProtocol) -> IssuedToken:
        found = await token_of(engine, token)
        return await engine.rotate_token(
            RotateTokenArgs(token_id=found.token_id, grace_ms=grace_ms, by=current_user())
        )

    _print_issued(database.write(work), as_json)
    return Exit.DONE


def revoke(token: TokenArgument, database: Database, as_json: Json = False) -> int:
    """Revokes a token. Every server refuses it within 5 s."""

    async def work(engine: EngineProtocol) -> ApiToken:
        found = await token_of(engine, token)
        return await engine.revoke_token(
            RevokeTokenArgs(token_id=found.token_id, by=current_user())
        )

    revoked = database.write(work)
    if as_json:
        print_json(msgspec.to_builtins(revoked))
    else:
        show(f"revoked {clean(revoked.name)} ({revoked.token_id}); servers refuse it within 5 s")
    return Exit.DONE


def list_all(
    database: Database,
    every: Annotated[bool, typer.Option("--all", help="Revoked and expired tokens too.")] = False,
    as_json: Json = False,
) -> int:
    """Lists tokens, without their texts."""

    async def work(engine: EngineProtocol) -> tuple[list[ApiToken], int]:
        now = await engine.server_time_ms()
        found = [each async for each in _each(engine) if every or each.is_live(now)]
        return found, now

    found, now = database.read(work)
    if as_json:
        print_json({"tokens": msgspec.to_builtins(found)})
    elif found:
        console.print(_table(found, now))
    else:
        show("no tokens; `flowfabric tokens create NAME --role ROLE` creates one")
    return Exit.DONE


async def token_of(engine: EngineProtocol, text: str) -> ApiToken:
    """The token that a name, an id or the beginning of an id names; live ones come first."""
    now = await engine.server_time_ms()
    found = [each async for each in _each(engine) if _is_named(each, text)]
    live = [each for each in found if each.is_live(now)] or found
    if not live:
        raise CommandError(
            Exit.NOT_FOUND,
            f"{clean(text)[:80]}: no such token; `flowfabric tokens list --all` lists all",
        )
    if len(live) > 1:
        ids = ", ".join(str(each.token_id) for each in live[:MAX_CANDIDATES])
        raise CommandError(
            Exit.NOT_FOUND, f"{clean(text)[:80]}: {len(live)} tokens; name one by its id: {ids}"
        )
    return live[0]


def _is_named(token: ApiToken, text: str) -> bool:
    digits = text.replace("-", "").lower()
    is_prefix = len(digits) >= MIN_PREFIX and token.token_id.hex.startswith(digits)
    return token.name == text or is_prefix


async def _each(engine: EngineProtocol) -> AsyncIterator[ApiToken]:
    cursor: UUID | None = None
    while True:
        page = await engine.list_tokens(PAGE, cursor)
        for each in page.items:
            yield each
        cursor = page.next_cursor
        if cursor is None:
            return


def _print_issued(issued: IssuedToken, as_json: bool) -> None:
    if as_json:
        print_json({"token": issued.token, **msgspec.to_builtins(issued.info)})
        return
    show(issued.token, f"{clean(issued.info.name)} ({issued.info.token_id}). {SHOWN_ONCE}")


def _table(found: list[ApiToken], now_ms: int) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("NAME", "ID", "ROLES", "NAMESPACE", "LANES", "CREATED", "EXPIRES", "LAST USED"):
        table.add_column(title, overflow="fold")
    table.add_column("STATE")
    for each in found:
        table.add_row(
            clean(each.name),
            str(each.token_id),
            ", ".join(each.roles),
            clean(each.namespace or "all"),
            "all" if each.lanes is None else clean(", ".join(each.lanes)),
            _day(each.created_at_ms),
            _day(each.expires_at_ms),
            _day(each.last_used_at_ms),
            state_of(each, now_ms),
        )
    return table


def _day(at_ms: int | None) -> str:
    return "-" if at_ms is None else utc(at_ms, "%Y-%m-%d %H:%M")


def state_of(token: ApiToken, now_ms: int) -> str:
    if token.revoked_at_ms is not None:
        return "revoked"
    if not token.is_live(now_ms):
        return "expired"
    overlap = token.former_until_ms
    return "live" if overlap is None or overlap <= now_ms else f"overlap until {_day(overlap)}"
