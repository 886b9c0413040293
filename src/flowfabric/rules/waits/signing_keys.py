"""The keys that sign waitpoint tokens: the first key, and rotation with a grace period."""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence

from msgspec import Struct, structs

from flowfabric.errors import (
    Conflict,
    ConflictKind,
    EngineError,
    ValidationError,
    ValidationKind,
    bad_input,
)
from flowfabric.model import signing_key as model
from flowfabric.plan import Arg, Cond, Delete, Form, Insert, Plan, Update
from flowfabric.rules.columns import by_args, from_args
from flowfabric.rules.decision import Commit, Decision, Reject, Return

HMAC = "ff_waitpoint_hmac"
MAX_KID_BYTES = 128
MAX_GRACE_MS = 2**53 - 1
MAX_SECRET_BYTES = 1_024
_SECRET = re.compile(rf"(?!0+\Z)(?:[0-9a-fA-F]{{2}}){{32,{MAX_SECRET_BYTES}}}\Z")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_KEY = by_args("kid")
_NEW = {**from_args("kid", "secret"), "rotated_at_ms": Arg("now"), "active": 1}

ADD_KEY = Form("add_hmac_key", Insert(HMAC, _NEW))
COPY_KEY = Form(
    "copy_hmac_key",
    Insert(HMAC, from_args("kid", "secret", "rotated_at_ms", "active", "expires_at_ms")),
)
RETIRE_KEY = Form(
    "retire_hmac_key",
    Update(
        HMAC, (*_KEY, Cond("active", "=", 1)), {"active": 0, "expires_at_ms": Arg("expires_at_ms")}
    ),
)
REVIVE_KEY = Form(
    "revive_hmac_key",
    Update(
        HMAC,
        (*_KEY, Cond("active", "=", 0)),
        {"active": 1, "expires_at_ms": None, "rotated_at_ms": Arg("now")},
    ),
)
DROP_KEY = Form("drop_hmac_key", Delete(HMAC, (*_KEY, Cond("active", "=", 0))))


class Rotation(Struct, frozen=True):
    plans: list[Plan]
    result: model.Rotated


def is_secret(text: object) -> bool:
    return isinstance(text, str) and _SECRET.match(text) is not None


def _is_short_text(kid: str) -> bool:
    """A lone surrogate has no UTF-8 bytes to sign."""
    return _LONE_SURROGATE.search(kid) is None and len(kid.encode()) <= MAX_KID_BYTES


def check_seed(kid: object, secret_hex: object) -> None:
    if not isinstance(kid, str) or not kid:
        raise bad_input("kid must be non-empty")
    if not _is_short_text(kid):
        raise bad_input(f"kid must be text of at most {MAX_KID_BYTES} bytes")
    if ":" in kid:
        raise bad_input("kid must not contain ':' (token wire shape is `<kid>:<hex>`)")
    if not is_secret(secret_hex):
        raise bad_input(
            "secret_hex must be 64 hex characters (256-bit secret) or more, in pairs, not all zero"
        )


def seed(keys: Sequence[model.HmacKey], kid: str, secret: bytes, now: int) -> Decision:
    """Stores the first key; a second one comes only by rotation."""
    known = next((key for key in keys if key.kid == kid), None)
    if known is not None:
        return Return(model.AlreadySeeded(kid, hmac.compare_digest(known.secret, secret)))
    other = next((key for key in keys if key.active), None)
    if other is not None:
        detail = (
            f'seed_waitpoint_hmac_secret: a different kid "{other.kid}" is already active; '
            "use rotate_waitpoint_hmac_secret_all to change kid"
        )
        return Reject(bad_input(detail))
    return Commit(ADD_KEY(kid=kid, secret=secret, now=now), model.Seeded(kid))


def copied(key: model.HmacKey) -> Plan:
    """The key as another cell has it."""
    return COPY_KEY(**structs.asdict(key))


def check_rotation(new_kid: object, secret_hex: object, grace_ms: object) -> EngineError | None:
    if not isinstance(new_kid, str) or not new_kid or ":" in new_kid or not _is_short_text(new_kid):
        return ValidationError(
            ValidationKind.INVALID_KID,
            f"text without ':', not empty, at most {MAX_KID_BYTES} bytes",
        )
    if not is_secret(secret_hex):
        return ValidationError(
            ValidationKind.INVALID_SECRET_HEX, "64 hex characters or more, in pairs, not all zero"
        )
    if type(grace_ms) is int and 0 <= grace_ms <= MAX_GRACE_MS:
        return None
    accepted = f"a whole number from 0 to {MAX_GRACE_MS}"
    return ValidationError(ValidationKind.INVALID_GRACE_MS, accepted)


def rotate(
    keys: Sequence[model.HmacKey], new_kid: str, secret: bytes, grace_ms: int, now: int
) -> Rotation | model.RotationNoop | EngineError:
    known = next((key for key in keys if key.kid == new_kid), None)
    if known is not None and not hmac.compare_digest(known.secret, secret):
        return Conflict(ConflictKind.ROTATION_CONFLICT, new_kid)
    if known is not None and known.active:
        return model.RotationNoop(new_kid)
    current = next((key.kid for key in keys if key.active), None)
    expired = [key for key in keys if not key.active and key.kid != new_kid and key.is_over(now)]
    plans = [DROP_KEY(kid=key.kid) for key in expired]
    plans += [RETIRE_KEY(kid=key.kid, expires_at_ms=now + grace_ms) for key in keys if key.active]
    add = ADD_KEY(kid=new_kid, secret=secret, now=now)
    plans.append(add if known is None else REVIVE_KEY(kid=new_kid, now=now))
    return Rotation(plans, model.Rotated(current, new_kid, len(expired)))


def listing(keys: Sequence[model.HmacKey], now: int) -> model.KidListing:
    current = next((key.kid for key in keys if key.active), None)
    verifying = sorted(
        (key.expires_at_ms, at, key.kid)
        for at, key in enumerate(keys)
        if not key.active and key.expires_at_ms is not None and key.expires_at_ms >= now
    )
    return model.KidListing(current, tuple((kid, expires) for expires, _, kid in verifying))
