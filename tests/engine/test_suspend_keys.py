"""Signing keys of tokens: the first one, rotation, grace periods, and the refusal of a wrong
token.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import Conflict, ConflictKind, ValidationError, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.signing_key import (
    AlreadySeeded,
    KidListing,
    Rotated,
    RotationEntry,
    RotationNoop,
    Seeded,
)
from flowfabric.model.waitpoint import FreshWaitpoint, OperatorOnly
from flowfabric.testing import ManualClock

from .flow_helpers import change_row
from .helpers import dump, row
from .suspend_helpers import KEY, KID, SECRET, bad_token, park, seed, signal, signal_args

OTHER, THIRD = "3b" * 32, "4c" * 32
GRACE_MS = 1_000
VECTORS = {
    KID: (SECRET, "k1:106f4958ecd6aee7a33062cbb554bf0218d1493feed9c6a32e914675292ab5c8"),
    "kid-2": (
        "00112233445566778899aabbccddeeff" * 2,
        "kid-2:60af3032c194d72e06489890a736b88c4c8361764752f1e2c81f903344f7367e",
    ),
}


@pytest.mark.parametrize(("kid", "vector"), VECTORS.items(), ids=VECTORS.keys())
async def test_tokens_are_the_known_ones(engine: Engine, kid: str, vector: tuple[str, str]) -> None:
    secret, token = vector
    await engine.seed_waitpoint_hmac_secret(kid, secret)
    ident = ExecutionId.of(0, UUID("11111111-1111-4111-8111-111111111111"))
    mailbox = FreshWaitpoint(UUID("22222222-2222-4222-8222-222222222222"), KEY)
    parked = await park(engine, made={"execution_id": ident}, waitpoints=[mailbox])
    assert parked.waitpoint.waitpoint_token == token
    assert await engine.read_waitpoint_token(0, mailbox.waitpoint_id) == token
    assert await signal(engine, parked) == "resume_condition_satisfied"


async def test_seeding(engine: Engine) -> None:
    assert await engine.list_waitpoint_hmac_kids() == KidListing(None, ())
    for kid, secret in (
        ("", SECRET),
        ("a:b", SECRET),
        (KID, SECRET[:-1]),
        (KID, SECRET + "a"),
        (KID, "zz" * 32),
        (KID, ""),
    ):
        with pytest.raises(ValidationError) as caught:
            await engine.seed_waitpoint_hmac_secret(kid, secret)
        assert caught.value.kind is ValidationKind.INVALID_INPUT
    assert (await engine.store.dump(["ff_waitpoint_hmac"]))["ff_waitpoint_hmac"] == []
    assert await engine.seed_waitpoint_hmac_secret(KID, SECRET) == Seeded(KID)
    before = await dump(engine)
    assert await engine.seed_waitpoint_hmac_secret(KID, SECRET.upper()) == AlreadySeeded(KID, True)
    assert await engine.seed_waitpoint_hmac_secret(KID, OTHER) == AlreadySeeded(KID, False)
    with pytest.raises(ValidationError, match='a different kid "k1" is already active'):
        await engine.seed_waitpoint_hmac_secret("k2", OTHER)
    assert await dump(engine) == before
    await engine.rotate_waitpoint_hmac_secret_all("k2", OTHER, GRACE_MS)
    assert await engine.seed_waitpoint_hmac_secret(KID, SECRET) == AlreadySeeded(KID, True)


async def test_a_longer_secret_is_a_secret(engine: Engine) -> None:
    assert await engine.seed_waitpoint_hmac_secret(KID, SECRET + "ab") == Seeded(KID)
    (entry,) = await engine.rotate_waitpoint_hmac_secret_all("k2", OTHER * 2, GRACE_MS)
    assert entry.result == Rotated(KID, "k2", 0)
    parked = await park(engine)
    assert await signal(engine, parked) == "resume_condition_satisfied"


async def test_rotating(engine: Engine, clock: ManualClock) -> None:
    assert await engine.rotate_waitpoint_hmac_secret_all(KID, SECRET, 0) == [
        RotationEntry(0, Rotated(None, KID, 0))
    ]
    before = await dump(engine)
    assert await engine.rotate_waitpoint_hmac_secret_all(KID, SECRET, 0) == [
        RotationEntry(0, RotationNoop(KID))
    ]
    (entry,) = await engine.rotate_waitpoint_hmac_secret_all(KID, OTHER, 0)
    assert (
        isinstance(entry.result, Conflict) and entry.result.kind is ConflictKind.ROTATION_CONFLICT
    )
    assert await dump(engine) == before
    parked = await park(engine, resume_condition=OperatorOnly())
    (entry,) = await engine.rotate_waitpoint_hmac_secret_all("k2", OTHER, 2 * GRACE_MS)
    assert entry.result == Rotated(KID, "k2", 0)
    clock.advance(1)
    (entry,) = await engine.rotate_waitpoint_hmac_secret_all("k3", THIRD, GRACE_MS)
    assert entry.result == Rotated("k2", "k3", 0)
    expected = (("k2", clock() + GRACE_MS), (KID, clock() - 1 + 2 * GRACE_MS))
    assert await engine.list_waitpoint_hmac_kids() == KidListing("k3", expected)
    await signal(engine, parked)
    clock.advance(2 * GRACE_MS - 1)
    await signal(engine, parked)
    clock.advance(1)
    late = signal_args(parked.ident, parked.waitpoint)
    await bad_token(engine.deliver_signal(late), "token_expired")
    assert (await row(engine, parked.ident)).last_hmac_validation_failed_at == clock()
    assert await engine.list_waitpoint_hmac_kids() == KidListing("k3", ())
    (entry,) = await engine.rotate_waitpoint_hmac_secret_all(KID, SECRET, GRACE_MS)
    assert entry.result == Rotated("k3", KID, 1)
    await signal(engine, parked)
    (entry,) = await engine.rotate_waitpoint_hmac_secret_all("k3", OTHER, GRACE_MS)
    assert isinstance(entry.result, Conflict)


@pytest.mark.parametrize(
    ("kid", "secret", "grace", "kind"),
    [
        ("", OTHER, 1, ValidationKind.INVALID_KID),
        ("a:b", "", -1, ValidationKind.INVALID_KID),
        ("k2", OTHER[:-1], -1, ValidationKind.INVALID_SECRET_HEX),
        ("k2", OTHER + "a", 1, ValidationKind.INVALID_SECRET_HEX),
        ("k2", "xy" * 32, 1, ValidationKind.INVALID_SECRET_HEX),
        ("k2", OTHER, -1, ValidationKind.INVALID_GRACE_MS),
        ("k2", OTHER, 2**53, ValidationKind.INVALID_GRACE_MS),
        ("k2", OTHER, 1.5, ValidationKind.INVALID_GRACE_MS),
    ],
)
async def test_what_is_no_rotation(
    engine: Engine, kid: str, secret: str, grace: int, kind: ValidationKind
) -> None:
    await seed(engine)
    before = await dump(engine)
    with pytest.raises(ValidationError) as caught:
        await engine.rotate_waitpoint_hmac_secret_all(kid, secret, grace)
    assert caught.value.kind is kind
    assert await dump(engine) == before


async def test_an_old_key_without_an_end_does_not_count(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine)
    await engine.rotate_waitpoint_hmac_secret_all("k2", OTHER, GRACE_MS)
    for expires in (None, 0, -5):
        await change_row(engine, "ff_waitpoint_hmac", {"kid": KID}, expires_at_ms=expires)
        await bad_token(
            engine.deliver_signal(signal_args(parked.ident, parked.waitpoint)), "token_expired"
        )


async def test_no_key_at_all(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine)
    await change_row(engine, "ff_waitpoint_hmac", {"kid": KID}, active=0)
    await bad_token(
        engine.deliver_signal(signal_args(parked.ident, parked.waitpoint)),
        "hmac_secret_not_initialized",
    )
    await bad_token(
        engine.deliver_signal(signal_args(parked.ident, parked.waitpoint, waitpoint_token="x")),
        "invalid_token",
    )


async def test_a_good_token_that_is_not_the_stored_one(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine)
    where = {
        "partition_key": parked.ident.partition_index,
        "waitpoint_id": parked.waitpoint.waitpoint_id,
    }
    await change_row(engine, "ff_waitpoint_pending", where, token_digest="0" * 16 + ":" + "0" * 64)
    await bad_token(
        engine.deliver_signal(signal_args(parked.ident, parked.waitpoint)), "invalid_token"
    )
