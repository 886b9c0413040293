"""Who may do what: bearer tokens, each with roles, and perhaps one namespace it is held to."""

from __future__ import annotations

import hashlib
import hmac
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from flowfabric.errors import ConfigError
from flowfabric.wire.operations import Role

SHORTEST_TOKEN = 16
MAX_TOKENS = 1_000
_IMPLIED = {
    Role.ADMIN: frozenset(Role),
    Role.OPERATE: frozenset({Role.OPERATE, Role.READ, Role.SUBMIT}),
    Role.WORK: frozenset({Role.WORK, Role.READ}),
    Role.SUBMIT: frozenset({Role.SUBMIT, Role.READ}),
    Role.READ: frozenset({Role.READ}),
}


class Caller(Struct, frozen=True):
    """Whoever sent a request. `lanes`, where given, are the only ones it may submit to and take work from."""

    name: str
    roles: frozenset[Role]
    namespace: str | None = None
    lanes: frozenset[str] | None = None

    def may(self, role: Role) -> bool:
        return role in self.roles


ANYBODY = Caller("anybody", frozenset(Role))


class Token(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    token: str
    roles: list[Role]
    namespace: str | None = None
    lanes: list[str] | None = None

    def __repr__(self) -> str:
        roles = [role.value for role in self.roles]
        return f"Token({self.name!r}, <REDACTED>, roles={roles}, namespace={self.namespace!r}, lanes={self.lanes!r})"


class Tokens:
    """Known by their digests: comparing those takes the same time whatever was sent."""

    def __init__(self, known: Iterable[Token]) -> None:
        self._callers = {_digest(each.token): _caller(each) for each in known}

    def __bool__(self) -> bool:
        return bool(self._callers)

    def caller(self, header: str | None) -> Caller | None:
        """Of an `Authorization` header, which must be exactly `Bearer <token>`."""
        if header is None or not header.startswith("Bearer "):
            return None
        given = _digest(header[len("Bearer ") :])
        found = None
        for digest, caller in self._callers.items():
            if hmac.compare_digest(digest, given):
                found = caller
        return found


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _caller(token: Token) -> Caller:
    roles = frozenset(implied for role in token.roles for implied in _IMPLIED[role])
    return Caller(
        token.name, roles, token.namespace, None if token.lanes is None else frozenset(token.lanes)
    )


def tokens_of(single: str | None, file: str | None) -> Tokens:
    """`FF_API_TOKEN` may do everything; a file names the others."""
    known = [Token("FF_API_TOKEN", single, [Role.ADMIN])] if single else []
    if file:
        known += _read(Path(file))
    return Tokens(known)


def _read(path: Path) -> list[Token]:
    try:
        given: Mapping[str, Any] = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"invalid value for FF_API_TOKENS_FILE: {path.name}: {error}") from None
    try:
        found = msgspec.convert(given.get("token", []), list[Token])
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"invalid value for FF_API_TOKENS_FILE: {path.name}: [[token]] entries: {error}"
        ) from None
    if not found:
        raise ConfigError(
            f"invalid value for FF_API_TOKENS_FILE: {path.name}: no [[token]] entry; none would let everybody in"
        )
    if len({each.token for each in found}) != len(found):
        raise ConfigError(
            f"invalid value for FF_API_TOKENS_FILE: {path.name}: two names have the same token"
        )
    if len(found) > MAX_TOKENS or len({each.name for each in found}) != len(found):
        raise ConfigError(
            f"invalid value for FF_API_TOKENS_FILE: at most {MAX_TOKENS} tokens, each with a name of its own"
        )
    for each in found:
        if len(each.token) < SHORTEST_TOKEN:
            raise ConfigError(
                f"invalid value for FF_API_TOKENS_FILE: {each.name}: a token has at least {SHORTEST_TOKEN} characters"
            )
    return found
