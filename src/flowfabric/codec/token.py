"""Waitpoint tokens, which allow a signal: `kid:hex`, an HMAC of kid, execution and waitpoint."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from uuid import UUID

from flowfabric.errors import ValidationError, ValidationKind, bad_input
from flowfabric.ids import ExecutionId
from flowfabric.model.signing_key import HmacKey

MAX_TOKEN_BYTES = 512
# A lone surrogate has no UTF-8 bytes to compare.
_SHAPE = re.compile(r"([^:\ud800-\udfff]+):([0-9a-fA-F]{64})\Z")
FINGERPRINT_DIGITS = 16
_SEALED = re.compile(rf"[0-9a-f]{{{FINGERPRINT_DIGITS}}}:[0-9a-f]{{64}}\Z")


def mint(key: HmacKey, execution: ExecutionId, waitpoint: UUID, approver: str = "") -> str:
    """The token of a waitpoint, or that of an approver's link."""
    return f"{key.kid}:{_digest(key, execution, waitpoint, approver)}"


def _digest(key: HmacKey, execution: ExecutionId, waitpoint: UUID, approver: str = "") -> str:
    message = f"{execution}:{waitpoint}" + (f":{approver}" if approver else "")
    return signed(key, message.encode())


def signed(key: HmacKey, message: bytes) -> str:
    """The hex part of a token over any message, as all implementations make it."""
    return hmac.new(key.secret, key.kid.encode() + b":" + message, hashlib.sha256).hexdigest()


def sealed(token: str) -> str:
    """The stored form of a token: the digits that listings show, and a digest."""
    if not token:
        return ""
    return f"{fingerprint(token)[1]}:{hashlib.sha256(token.encode()).hexdigest()}"


def digits_of(stored: str) -> str:
    """The digits of a sealed token, which listings show; empty if it is not sealed."""
    return stored.partition(":")[0] if _SEALED.match(stored) else ""


def of_approver(
    stored: str, keys: Sequence[HmacKey], execution: ExecutionId, waitpoint: UUID, approver: str
) -> str | None:
    """The token of an approver's link by the waitpoint's key; None if that was dropped."""
    key = next((key for key in keys if _is_of(stored, key)), None)
    return None if key is None else mint(key, execution, waitpoint, approver)


def again(
    stored: str, kid: str, keys: Sequence[HmacKey], execution: ExecutionId, waitpoint: UUID
) -> str | None:
    """The token of a waitpoint, made with the same key again; None if the key was dropped."""
    key = next((key for key in keys if _same(key.kid, kid)), None)
    if key is None or not stored:
        return None
    token = mint(key, execution, waitpoint)
    return token if _same(sealed(token), stored) else None


def active_key(keys: Sequence[HmacKey]) -> HmacKey | None:
    return next((key for key in keys if key.active), None)


def signing_key(keys: Sequence[HmacKey]) -> HmacKey:
    found = active_key(keys)
    if found is None:
        raise bad_input("hmac_secret_not_initialized: ff_waitpoint_hmac empty")
    return found


def verify(
    token: str,
    execution: ExecutionId,
    waitpoint: UUID,
    stored: str | None,
    keys: Sequence[HmacKey],
    now_ms: int,
    approvers: Sequence[str] = (),
) -> str:
    """The approver of a link, or "" for the waitpoint's token. Raises for an invalid token."""
    if not token:
        raise _refused("missing_token")
    shape = _SHAPE.match(token) if len(token) <= MAX_TOKEN_BYTES else None
    if shape is None:
        raise _refused("invalid_token")
    if active_key(keys) is None:
        raise _refused("hmac_secret_not_initialized")
    key = next((key for key in keys if _same(key.kid, shape[1])), None)
    if key is None:
        raise _refused("invalid_token")
    if not key.active and key.is_over(now_ms):
        raise _refused("token_expired")
    good = _same(_digest(key, execution, waitpoint), shape[2].lower())
    same = _same(stored or "", token)
    if good and same:
        return ""
    links = [each for each in approvers if _same(mint(key, execution, waitpoint, each), token)]
    if not (links and _is_of(stored or "", key)):
        raise _refused("invalid_token")
    return links[0]


def _is_of(token: str, key: HmacKey) -> bool:
    return _same(token.partition(":")[0], key.kid)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def _refused(code: str) -> ValidationError:
    return ValidationError(ValidationKind.INVALID_TOKEN, code)


def fingerprint(token: str) -> tuple[str, str]:
    """The key's id and the first digits, which distinguish tokens but do not open anything."""
    shape = _SHAPE.match(token)
    return (shape[1], shape[2][:FINGERPRINT_DIGITS]) if shape else ("", "")


def redacted(token: str) -> str:
    shape = _SHAPE.match(token)
    return f"{shape[1]}:<REDACTED:len={len(shape[2])}>" if shape else "<REDACTED:malformed>"
