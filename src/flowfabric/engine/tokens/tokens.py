"""API tokens that the store knows: created, listed, rotated and revoked."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from functools import partial
from itertools import starmap
from uuid import UUID

from flowfabric.codec import api_token as codec
from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.snapshots import full_page, load_all
from flowfabric.errors import invalid
from flowfabric.ids import lane_id, time_ordered_uuid
from flowfabric.ids import name as checked_name
from flowfabric.model import api_token as model
from flowfabric.model.execution import Page
from flowfabric.rules.tokens import tokens
from flowfabric.store.port import Get, Scan

MAX_PAGE = 1_000


class ApiTokens:
    """A token's text exists in the answer of the call that issues it, and nowhere else."""

    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store

    async def create_token(self, args: model.CreateTokenArgs) -> model.IssuedToken:
        """Creates a token. Its text is in the answer only: the store keeps a digest."""
        _check(validation.instance(args, model.CreateTokenArgs))
        ident, token = time_ordered_uuid(), _new_token()
        digest = codec.digest_of(token)
        return await self._core.run(
            self._all, lambda found: tokens.create(found, args, ident, token, digest)
        )

    async def rotate_token(self, args: model.RotateTokenArgs) -> model.IssuedToken:
        """Gives a token a new text; the former text stays valid for `grace_ms`."""
        validation.instance(args, model.RotateTokenArgs)
        ident = _token_id(args.token_id)
        validation.whole(args.grace_ms, "grace_ms", 0, model.MAX_TOKEN_GRACE_MS)
        validation.text(args.by, "by")
        token = _new_token()
        digest = codec.digest_of(token)
        return await self._core.run(
            partial(self._one, ident), lambda found: tokens.rotate(found, args, token, digest)
        )

    async def revoke_token(self, args: model.RevokeTokenArgs) -> model.ApiToken:
        """Ends a token; every server refuses it within 5 s. Repeating it changes nothing."""
        validation.instance(args, model.RevokeTokenArgs)
        validation.text(args.by, "by")
        return await self._core.run(
            partial(self._one, _token_id(args.token_id)), lambda found: tokens.revoke(found, args)
        )

    async def list_tokens(
        self, limit: int = 100, cursor: UUID | None = None
    ) -> Page[model.ApiToken]:
        """Every token, oldest first, revoked ones included for 30 days or more."""
        size = validation.limit(limit, MAX_PAGE)
        after = None if cursor is None else (_token_id(cursor, "cursor"),)
        read = Scan("api_tokens", after=after, limit=size + 1)
        rows, following = full_page(await load_all(self._store, read, model.ApiTokenRow), size)
        shown = [row.shown() for row in rows]
        return Page(shown, None if following is None else rows[-1].token_id)

    async def read_live_tokens(self) -> model.TokenTable:
        """Every token that is not revoked, with its digests: what a server checks callers with."""
        found = await self._all()
        return model.TokenTable(found.now_ms, list(found.rows))

    async def touch_tokens(self, used: Iterable[UUID]) -> int:
        """Records the use of tokens, at most once a minute each; how many were recorded."""
        idents = [_token_id(ident, "used") for ident in used]
        now = await self._store.now_ms()
        return await self._core.commit_each([tokens.touch(ident, now) for ident in idents])

    async def _one(self, ident: UUID) -> tokens.TokenRows:
        loaded = await self._store.load((Get("ff_api_token", (ident,)),))
        return tokens.TokenRows(loaded.now_ms, list(starmap(model.ApiTokenRow, loaded.rows[0])))

    async def _all(self) -> tokens.TokenRows:
        reads = (
            Scan("live_tokens", limit=model.MAX_TOKENS + tokens.MAX_FORGOTTEN),
            Scan("revoked_tokens", limit=tokens.MAX_FORGOTTEN),
        )
        loaded = await self._store.load(reads)
        live, revoked = (list(starmap(model.ApiTokenRow, rows)) for rows in loaded.rows)
        return tokens.TokenRows(loaded.now_ms, live, revoked)


def _new_token() -> str:
    return codec.PREFIX + secrets.token_urlsafe(codec.RANDOM_BYTES)


def _token_id(value: object, field: str = "token_id") -> UUID:
    found = validation.optional_uuid(value, field)
    if found is None:
        raise invalid(field, "the id of a token", value)
    return found


def _check(args: model.CreateTokenArgs) -> None:
    checked_name(args.name, "name")
    if not args.name.isprintable() or codec.is_token(args.name):
        raise invalid("name", "printable text that is not a token")
    validation.text(args.by, "by")
    known = ", ".join(model.Role)
    if not isinstance(args.roles, list) or not args.roles:
        raise invalid("roles", f"one or more of {known}")
    if len(args.roles) > len(model.Role) or any(
        role not in list(model.Role) for role in args.roles
    ):
        raise invalid("roles", f"one or more of {known}")
    if args.namespace is not None:
        checked_name(args.namespace, "namespace")
    if args.lanes is not None:
        if not isinstance(args.lanes, list) or not 0 < len(args.lanes) <= model.MAX_TOKEN_LANES:
            raise invalid("lanes", f"1 to {model.MAX_TOKEN_LANES} lanes, or none for all lanes")
        for lane in args.lanes:
            lane_id(lane, "lanes")
    if args.expires_in_ms is not None:
        validation.whole(args.expires_in_ms, "expires_in_ms", 1, model.MAX_TOKEN_AGE_MS)
