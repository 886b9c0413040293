"""API tokens: created, rotated with an overlap, revoked, and marked as used."""

from __future__ import annotations

import json
from collections.abc import Sequence
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from flowfabric.errors import NotFound, invalid
from flowfabric.model import api_token as model
from flowfabric.model.event import OPERATOR_EVENTS
from flowfabric.plan import Add, AnyOf, Arg, Cond, Delete, Emit, Form, Insert, Now, Plan, Update
from flowfabric.rules.columns import by_args, from_args
from flowfabric.rules.decision import Commit, Decided, Reject, Return

TOKEN = "ff_api_token"  # noqa: S105 - the name of a table
CREATED, ROTATED, REVOKED = "token_created", "token_rotated", "token_revoked"
KEPT_MS = 30 * 86_400_000
MAX_FORGOTTEN = 100
_KEY = by_args("token_id", "version")
_LIVE = Cond("revoked_at_ms", "is null")


def _event(kind: str) -> Insert:
    """An operator's event about a token: its id is in the place of an execution's.

    It has no namespace, so only a subscriber of all namespaces sees it.
    """
    about = {"execution_id": Arg("token_id"), "partition_key": 0, "details": Arg("details")}
    return Emit(OPERATOR_EVENTS, kind, about, Arg("now"))


CREATE = Form(
    "create_api_token",
    Insert(
        TOKEN,
        {
            **from_args("token_id", "name", "digest", "roles", "namespace", "lanes"),
            **from_args("created_by", "expires_at_ms"),
            "created_at_ms": Arg("now"),
        },
    ),
    _event(CREATED),
)
ROTATE = Form(
    "rotate_api_token",
    Update(
        TOKEN,
        (*_KEY, _LIVE),
        {
            **from_args("digest", "former_digest", "former_until_ms"),
            "rotated_at_ms": Arg("now"),
            "version": Add(1),
        },
    ),
    _event(ROTATED),
)
REVOKE = Form(
    "revoke_api_token",
    Update(TOKEN, (*_KEY, _LIVE), {"revoked_at_ms": Arg("now"), "version": Add(1)}),
    _event(REVOKED),
)
FORGET = Form("forget_api_token", Delete(TOKEN, _KEY))
TOUCH = Form(
    "touch_api_token",
    Update(
        TOKEN,
        (
            *by_args("token_id"),
            AnyOf(
                (Cond("last_used_at_ms", "is null"), Cond("last_used_at_ms", "<=", Arg("before")))
            ),
        ),
        {"last_used_at_ms": Now()},
    ),
)
"""Servers share one write per token and minute: a token used since `before` is left alone."""


class TokenRows(Struct, frozen=True):
    """What a decision about tokens reads: one token, or all that are not revoked."""

    now_ms: int
    rows: Sequence[model.ApiTokenRow]
    revoked: Sequence[model.ApiTokenRow] = ()


def create(
    found: TokenRows, args: model.CreateTokenArgs, ident: UUID, token: str, digest: bytes
) -> Decided[model.IssuedToken]:
    """A name is in use until its token is revoked or has expired."""
    now = found.now_ms
    taken = (row for row in found.rows if row.name == args.name)
    if any(not model.has_passed(row.expires_at_ms, now) for row in taken):
        accepted = "a name that no other token has; revoke or rotate that one, or choose another"
        return Reject(invalid("name", accepted, args.name))
    forgotten = _forgotten(found)
    left = len(found.rows) - sum(row.revoked_at_ms is None for row in forgotten)
    if left >= model.MAX_TOKENS:
        return Reject(invalid("token", f"at most {model.MAX_TOKENS} tokens; revoke unused ones"))
    row = model.ApiTokenRow(
        token_id=ident,
        name=args.name,
        digest=digest,
        former_digest=None,
        former_until_ms=None,
        roles=_text(sorted(set(args.roles))),
        namespace=args.namespace,
        lanes=None if args.lanes is None else _text(sorted(set(args.lanes))),
        created_at_ms=now,
        created_by=args.by,
        expires_at_ms=None if args.expires_in_ms is None else now + args.expires_in_ms,
        rotated_at_ms=None,
        revoked_at_ms=None,
        last_used_at_ms=None,
        version=0,
    )
    plan = CREATE.of(row, now=now, details=_details(row, args.by))
    first = tuple(FORGET.of(row) for row in forgotten)
    return Commit(plan, model.IssuedToken(token, row.shown()), first)


def rotate(
    found: TokenRows, args: model.RotateTokenArgs, token: str, digest: bytes
) -> Decided[model.IssuedToken]:
    """A rotation during an overlap ends the overlap: the text before the last one is refused."""
    row, now = next(iter(found.rows), None), found.now_ms
    if row is None:
        return Reject(NotFound("token", args.token_id))
    if not row.shown().is_live(now):
        return Reject(invalid("token_id", "a token that is neither revoked nor expired"))
    rotated = structs.replace(
        row,
        digest=digest,
        former_digest=row.digest if args.grace_ms else None,
        former_until_ms=now + args.grace_ms if args.grace_ms else None,
        rotated_at_ms=now,
    )
    plan = ROTATE.of(rotated, now=now, details=_details(rotated, args.by, grace_ms=args.grace_ms))
    return Commit(plan, model.IssuedToken(token, rotated.shown()))


def revoke(found: TokenRows, args: model.RevokeTokenArgs) -> Decided[model.ApiToken]:
    """A token that is revoked already stays as it is."""
    row, now = next(iter(found.rows), None), found.now_ms
    if row is None:
        return Reject(NotFound("token", args.token_id))
    if row.revoked_at_ms is not None:
        return Return(row.shown())
    revoked = structs.replace(row, revoked_at_ms=now)
    plan = REVOKE.of(row, now=now, details=_details(row, args.by))
    return Commit(plan, revoked.shown())


def touch(ident: UUID, now_ms: int) -> Plan:
    return TOUCH(token_id=ident, before=now_ms - model.USED_EVERY_MS)


def _forgotten(found: TokenRows) -> list[model.ApiTokenRow]:
    """Tokens to remove: revoked or expired long ago, or just expired when there are too many."""
    old = found.now_ms - KEPT_MS
    before = old if len(found.rows) < model.MAX_TOKENS else found.now_ms
    revoked = [row for row in found.revoked if model.has_passed(row.revoked_at_ms, old)]
    expired = [row for row in found.rows if model.has_passed(row.expires_at_ms, before)]
    return [*expired, *revoked][:MAX_FORGOTTEN]


def _text(items: Sequence[str]) -> str:
    return json.dumps(items, separators=(",", ":"))


def _details(row: model.ApiTokenRow, by: str, **more: int) -> str:
    """What an event shows of a token: never its text or its digest."""
    about: dict[str, object] = {
        "token_id": str(row.token_id),
        "name": row.name,
        "roles": row.role_list,
        "namespace": row.namespace,
        "lanes": row.lane_list,
        **more,
        **({"by": by} if by else {}),
    }
    return msgspec.json.encode(about).decode()
