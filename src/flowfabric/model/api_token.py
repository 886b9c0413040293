"""API tokens that a store knows: their roles, their rows, and what operators see of them."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

import msgspec
from msgspec import Struct

MAX_TOKENS = 10_000
MAX_TOKEN_LANES = 100
MAX_TOKEN_AGE_MS = 3_650 * 86_400_000
MAX_TOKEN_GRACE_MS = 30 * 86_400_000
USED_EVERY_MS = 60_000


class Role(StrEnum):
    READ = "read"
    SUBMIT = "submit"
    WORK = "work"
    OPERATE = "operate"
    ADMIN = "admin"


IMPLIED_ROLES = {
    Role.ADMIN: frozenset(Role),
    Role.OPERATE: frozenset({Role.OPERATE, Role.READ, Role.SUBMIT}),
    Role.WORK: frozenset({Role.WORK, Role.READ}),
    Role.SUBMIT: frozenset({Role.SUBMIT, Role.READ}),
    Role.READ: frozenset({Role.READ}),
}


class CreateTokenArgs(Struct, frozen=True, kw_only=True):
    """`namespace` None admits to all namespaces, `lanes` None to all lanes.

    `expires_in_ms` None: the token is valid until it is revoked.
    """

    name: str
    roles: list[Role]
    namespace: str | None = None
    lanes: list[str] | None = None
    expires_in_ms: int | None = None
    by: str = ""


class RotateTokenArgs(Struct, frozen=True, kw_only=True):
    """The former text stays valid for `grace_ms`."""

    token_id: UUID
    grace_ms: int = 0
    by: str = ""


class RevokeTokenArgs(Struct, frozen=True, kw_only=True):
    token_id: UUID
    by: str = ""


class ApiToken(Struct, frozen=True, kw_only=True):
    """A token as listings show it; neither its text nor its digest is part of it.

    `last_used_at_ms` is exact to a minute. `former_until_ms`: the text before the last rotation is
    valid until then.
    """

    token_id: UUID
    name: str
    roles: list[Role]
    namespace: str | None
    lanes: list[str] | None
    created_at_ms: int
    created_by: str
    expires_at_ms: int | None
    rotated_at_ms: int | None
    former_until_ms: int | None
    revoked_at_ms: int | None
    last_used_at_ms: int | None

    def is_live(self, now_ms: int) -> bool:
        return self.revoked_at_ms is None and not has_passed(self.expires_at_ms, now_ms)


class IssuedToken(Struct, frozen=True):
    """A new or rotated token, with its text, which is not stored and cannot be shown again."""

    token: str
    info: ApiToken

    def __repr__(self) -> str:
        return f"IssuedToken(<REDACTED>, {self.info!r})"


class ApiTokenRow(Struct, frozen=True):
    """A row of `ff_api_token`."""

    token_id: UUID
    name: str
    digest: bytes
    former_digest: bytes | None
    former_until_ms: int | None
    roles: str
    namespace: str | None
    lanes: str | None
    created_at_ms: int
    created_by: str
    expires_at_ms: int | None
    rotated_at_ms: int | None
    revoked_at_ms: int | None
    last_used_at_ms: int | None
    version: int

    def __repr__(self) -> str:
        return f"ApiTokenRow({self.token_id}, {self.name!r})"

    @property
    def role_list(self) -> list[Role]:
        return msgspec.json.decode(self.roles, type=list[Role])

    @property
    def lane_list(self) -> list[str] | None:
        return None if self.lanes is None else msgspec.json.decode(self.lanes, type=list[str])

    def shown(self) -> ApiToken:
        return ApiToken(
            token_id=self.token_id,
            name=self.name,
            roles=self.role_list,
            namespace=self.namespace,
            lanes=self.lane_list,
            created_at_ms=self.created_at_ms,
            created_by=self.created_by,
            expires_at_ms=self.expires_at_ms,
            rotated_at_ms=self.rotated_at_ms,
            former_until_ms=self.former_until_ms,
            revoked_at_ms=self.revoked_at_ms,
            last_used_at_ms=self.last_used_at_ms,
        )


class TokenTable(Struct, frozen=True):
    """Every token that is not revoked, and the clock of the store when they were read."""

    now_ms: int
    rows: list[ApiTokenRow]


def has_passed(at_ms: int | None, now_ms: int) -> bool:
    return at_ms is not None and at_ms <= now_ms
