from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from flowfabric.codec.token import mint, verify
from flowfabric.errors import Conflict, ConflictKind, EngineError, ValidationError, ValidationKind
from flowfabric.model.signing_key import (
    AlreadySeeded,
    HmacKey,
    KidListing,
    Rotated,
    RotationNoop,
    Seeded,
)
from flowfabric.plan import Applied, Refused
from flowfabric.rules.decision import Commit, Reject, Return
from flowfabric.rules.waits.signing_keys import (
    MAX_GRACE_MS,
    MAX_KID_BYTES,
    Rotation,
    check_rotation,
    check_seed,
    is_secret,
    listing,
    rotate,
    seed,
)
from flowfabric.store.memory import MemoryStore

from .factory import IDENT, NOW, applied, commit_all, seeded
from .wait_factory import WAITPOINT_ID, rows_of

HEX = "2a" * 32
SECRET, OTHER = b"\x2a" * 32, b"\x2b" * 32
GRACE = 1_000


def key(
    kid: str, active: int = 1, expires_at: int | None = None, secret: bytes = SECRET
) -> HmacKey:
    return HmacKey(kid, NOW - 50, active, expires_at, secret)


def kids(store: MemoryStore) -> dict[str, tuple[int, int | None]]:
    return {row.kid: (row.active, row.expires_at_ms) for row in rows_of(store, HmacKey)}


BAD_SECRETS: list[Any] = [
    "",
    "2a",
    HEX[:-1],
    HEX + "0",
    HEX[:-1] + "g",
    HEX[:-1] + "\n",
    HEX + "\n",
    " " + HEX[1:],
    "0" * 64,
    "00" * 100,
    b"2a" * 32,
    None,
]
GOOD_SECRETS = [HEX, HEX.upper(), "0" * 63 + "1", HEX + "2a", HEX * 2]
NO_TEXT = "\ud800"


@pytest.mark.parametrize("text", GOOD_SECRETS)
def test_a_secret(text: str) -> None:
    assert is_secret(text)
    check_seed("k1", text)
    assert check_rotation("k1", text, 0) is None


@pytest.mark.parametrize("text", [*BAD_SECRETS, "2a" * 5_000])
def test_what_is_no_secret(text: Any) -> None:
    assert not is_secret(text)


# ---- the first key


def refused(kid: Any, secret: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        check_seed(kid, secret)
    assert caught.value.kind is ValidationKind.INVALID_INPUT
    return caught.value.detail


def test_the_checks_of_a_seed_in_order() -> None:
    assert refused("", "") == "kid must be non-empty"
    assert refused(None, "") == "kid must be non-empty"
    assert (
        refused(":", "")
        == refused("a:b", "")
        == "kid must not contain ':' (token wire shape is `<kid>:<hex>`)"
    )
    for secret in BAD_SECRETS:
        assert "64 hex characters" in refused("k1", secret)
    check_seed("k1", HEX)
    check_seed("k" * MAX_KID_BYTES, HEX)


@pytest.mark.parametrize("kid", ["k" * (MAX_KID_BYTES + 1), "ä" * MAX_KID_BYTES, NO_TEXT])
def test_a_kid_that_is_no_short_text(kid: str) -> None:
    assert str(MAX_KID_BYTES) in refused(kid, HEX)
    problem = check_rotation(kid, HEX, 0)
    assert isinstance(problem, ValidationError) and problem.kind is ValidationKind.INVALID_KID


def test_seeding_an_empty_keystore() -> None:
    decision = seed((), "k1", SECRET, NOW)
    assert isinstance(decision, Commit) and decision.result == Seeded("k1")
    assert rows_of(applied(decision), HmacKey) == [HmacKey("k1", NOW, 1, None, SECRET)]


@pytest.mark.parametrize("active", [0, 1])
@pytest.mark.parametrize(("secret", "same"), [(SECRET, True), (OTHER, False)])
def test_a_second_seed_returns_whether_the_secret_is_the_same(
    active: int, secret: bytes, same: bool
) -> None:
    known = (key("k0", 1 - active), key("k1", active))
    assert seed(known, "k1", secret, NOW) == Return(AlreadySeeded("k1", same))


def test_seeding_beside_another_active_key() -> None:
    decision = seed((key("k1"),), "k2", SECRET, NOW)
    assert isinstance(decision, Reject)
    assert (
        isinstance(decision.error, ValidationError)
        and decision.error.kind is ValidationKind.INVALID_INPUT
    )
    assert decision.error.detail == (
        'seed_waitpoint_hmac_secret: a different kid "k1" is already active; '
        "use rotate_waitpoint_hmac_secret_all to change kid"
    )


def test_seeding_where_every_key_is_retired() -> None:
    decision = seed((key("k1", 0, NOW),), "k2", SECRET, NOW)
    store = applied(decision, key("k1", 0, NOW))
    assert kids(store) == {"k1": (0, NOW), "k2": (1, None)}


# ---- changing it


def problem(kid: Any, secret: Any, grace: Any) -> str:
    found = check_rotation(kid, secret, grace)
    assert isinstance(found, ValidationError)
    return found.kind


def test_the_checks_of_a_rotation_in_order() -> None:
    for kid in ("", "a:b", ":", None, 7):
        assert problem(kid, "", -1) == ValidationKind.INVALID_KID
    for secret in BAD_SECRETS:
        assert problem("k2", secret, -1) == ValidationKind.INVALID_SECRET_HEX
    for grace in (-1, MAX_GRACE_MS + 1, 1.0, "5", None, True, float("nan")):
        assert problem("k2", HEX, grace) == ValidationKind.INVALID_GRACE_MS
    for grace in (0, 1, MAX_GRACE_MS):
        assert check_rotation("k2", HEX, grace) is None
    assert MAX_GRACE_MS == 2**53 - 1


def rotation(
    keys: Sequence[HmacKey], kid: str, secret: bytes = SECRET, now: int = NOW, grace: int = GRACE
) -> tuple[Rotated, MemoryStore]:
    found = rotate(keys, kid, secret, grace, now)
    assert isinstance(found, Rotation), found
    store = seeded(*keys)
    assert isinstance(commit_all(store, found.plans), Applied)
    return found.result, store


def conflict(found: Rotation | RotationNoop | EngineError) -> str:
    assert isinstance(found, Conflict) and found.kind is ConflictKind.ROTATION_CONFLICT
    return str(found)


@pytest.mark.parametrize("active", [0, 1])
def test_another_secret_under_a_known_kid_is_a_conflict(active: int) -> None:
    known = (key("k0", 1 - active), key("k1", active, NOW - 5))
    said = conflict(rotate(known, "k1", OTHER, GRACE, NOW))
    assert "k1" in said and OTHER.hex() not in said


def test_the_same_active_key_again_changes_nothing() -> None:
    assert rotate((key("k1"),), "k1", SECRET, GRACE, NOW) == RotationNoop("k1")


def test_rotating_an_empty_keystore() -> None:
    result, store = rotation((), "k1")
    assert result == Rotated(None, "k1", 0)
    assert rows_of(store, HmacKey) == [HmacKey("k1", NOW, 1, None, SECRET)]


def test_the_outgoing_key_stays_for_the_grace() -> None:
    result, store = rotation((key("k1"),), "k2", OTHER)
    assert result == Rotated("k1", "k2", 0)
    assert kids(store) == {"k1": (0, NOW + GRACE), "k2": (1, None)}


def test_what_is_past_its_grace_goes() -> None:
    old = (
        key("null", 0),
        key("zero", 0, 0),
        key("minus", 0, -9),
        key("past", 0, NOW - 1),
        key("just", 0, NOW),
        key("k1"),
    )
    result, store = rotation(old, "k2")
    assert result == Rotated("k1", "k2", 4)
    assert kids(store) == {"just": (0, NOW), "k1": (0, NOW + GRACE), "k2": (1, None)}


@pytest.mark.parametrize("expires_at", [None, 0, NOW - 1, NOW + 5])
def test_a_retired_key_with_its_own_secret_is_revived(expires_at: int | None) -> None:
    result, store = rotation((key("k1", 0, expires_at), key("k2")), "k1")
    assert result == Rotated("k2", "k1", 0)
    assert kids(store) == {"k1": (1, None), "k2": (0, NOW + GRACE)}
    assert [row.rotated_at_ms for row in rows_of(store, HmacKey) if row.kid == "k1"] == [NOW]


def test_two_rotations_at_once_leave_one_active_key() -> None:
    store = seeded(key("k1"))
    first, second = (rotate((key("k1"),), kid, SECRET, GRACE, NOW) for kid in ("k2", "k3"))
    assert isinstance(first, Rotation) and isinstance(second, Rotation)
    assert isinstance(commit_all(store, first.plans), Applied)
    assert isinstance(commit_all(store, second.plans), Refused)
    assert kids(store) == {"k1": (0, NOW + GRACE), "k2": (1, None)}


def test_three_keys_in_a_row() -> None:
    """A token of the first key is valid to the end of its grace, however many keys follow."""
    first = key("A", secret=b"a" * 32)
    token = mint(first, IDENT, WAITPOINT_ID)
    _, store = rotation((first,), "B", b"b" * 32)
    keys = rows_of(store, HmacKey)
    _, store = rotation(keys, "C", b"c" * 32, now=NOW + 400)
    keys = rows_of(store, HmacKey)
    assert kids(store) == {"A": (0, NOW + GRACE), "B": (0, NOW + 400 + GRACE), "C": (1, None)}
    for now in (NOW + 400, NOW + GRACE):
        verify(token, IDENT, WAITPOINT_ID, token, keys, now)
    with pytest.raises(ValidationError, match="token_expired"):
        verify(token, IDENT, WAITPOINT_ID, token, keys, NOW + GRACE + 1)
    result, store = rotation(keys, "D", b"d" * 32, now=NOW + GRACE + 1)
    assert result.gc_count == 1
    with pytest.raises(ValidationError, match="invalid_token"):
        verify(token, IDENT, WAITPOINT_ID, token, rows_of(store, HmacKey), NOW + GRACE + 1)


# ---- showing them


def test_the_listing_of_kids() -> None:
    keys = [
        key("late", 0, NOW + 9),
        key("now", 1),
        key("gone", 0, NOW - 1),
        key("never", 0),
        key("last", 0, NOW),
        key("zero", 0, 0),
    ]
    assert listing(keys, NOW) == KidListing("now", (("last", NOW), ("late", NOW + 9)))
    assert listing((), NOW) == KidListing(None, ())
    assert listing([replace(keys[0], expires_at_ms=NOW)], NOW) == KidListing(None, (("late", NOW),))
