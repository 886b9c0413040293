"""Authentication: bearer tokens, each with roles and optionally bound to a namespace and lanes."""

from __future__ import annotations

import hashlib
import hmac
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from flowfabric.errors import ConfigError
from flowfabric.model.api_token import IMPLIED_ROLES, Role

MIN_TOKEN_LENGTH = 16
MAX_TOKENS = 1_000


class Caller(Struct, frozen=True):
    """The sender of a request. `lanes` restricts the lanes it may submit to and claim from.

    `credential` is the digest of a token in the store; it is None for a token of the configuration.
    """

    name: str
    roles: frozenset[Role]
    namespace: str | None = None
    lanes: frozenset[str] | None = None
    credential: bytes | None = None

    def __repr__(self) -> str:
        return f"Caller({self.name!r})"

    def may(self, role: Role) -> bool:
        return role in self.roles


ANONYMOUS = Caller("anonymous", frozenset(Role))


class Token(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    token: str
    roles: list[Role]
    namespace: str | None = None
    lanes: list[str] | None = None

    def __repr__(self) -> str:
        roles = [role.value for role in self.roles]
        bounds = f"namespace={self.namespace!r}, lanes={self.lanes!r}"
        return f"Token({self.name!r}, <REDACTED>, roles={roles}, {bounds})"


class Tokens:
    """The accepted tokens, stored as digests: comparing digests takes constant time."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._callers = {_digest(each.token): _caller(each) for each in tokens}

    def __bool__(self) -> bool:
        return bool(self._callers)

    def caller(self, header: str | None) -> Caller | None:
        """The caller of an `Authorization` header, which must be exactly `Bearer <token>`."""
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
    roles = frozenset(implied for role in token.roles for implied in IMPLIED_ROLES[role])
    return Caller(
        token.name, roles, token.namespace, None if token.lanes is None else frozenset(token.lanes)
    )


def load_tokens(single: str | None, file: str | None) -> Tokens:
    """The token of `FF_API_TOKEN`, which has every role, and the tokens of a file."""
    found = [Token("FF_API_TOKEN", single, [Role.ADMIN])] if single else []
    if file:
        found += _read(Path(file))
    return Tokens(found)


def _read(path: Path) -> list[Token]:
    try:
        given: Mapping[str, object] = tomllib.loads(path.read_text())
        found = msgspec.convert(given.get("token", []), list[Token])
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _invalid(f"{path.name}: {error}") from None
    except msgspec.ValidationError as error:
        raise _invalid(f"{path.name}: [[token]] entries: {error}") from None
    if not found:
        raise _invalid(f"{path.name}: no [[token]] entry; an empty file would admit every caller")
    if len({each.token for each in found}) != len(found):
        raise _invalid(f"{path.name}: two names have the same token")
    if len(found) > MAX_TOKENS or len({each.name for each in found}) != len(found):
        raise _invalid(f"at most {MAX_TOKENS} tokens, each with a name of its own")
    for each in found:
        if len(each.token) < MIN_TOKEN_LENGTH:
            raise _invalid(f"{each.name}: a token has at least {MIN_TOKEN_LENGTH} characters")
    return found


def _invalid(reason: str) -> ConfigError:
    return ConfigError(f"invalid value for FF_API_TOKENS_FILE: {reason}")
