"""API tokens in the store: created, listed, rotated, revoked, forgotten; on every store."""

from __future__ import annotations

import json
import logging
from typing import Any
from uuid import UUID, uuid4

import pytest
from msgspec import structs

from flowfabric import Engine, EngineError
from flowfabric.codec.api_token import digest_of, is_token
from flowfabric.model import api_token as model
from flowfabric.model.api_token import CreateTokenArgs, RevokeTokenArgs, Role, RotateTokenArgs
from flowfabric.rules.tokens import tokens as rules
from flowfabric.testing import ManualClock

DAY_MS = 86_400_000


async def issued(engine: Engine, name: str = "web", **fields: Any) -> model.IssuedToken:
    return await engine.create_token(
        CreateTokenArgs(**{"name": name, "roles": [Role.READ], **fields})
    )


async def listed(engine: Engine) -> list[model.ApiToken]:
    return (await engine.list_tokens()).items


async def test_a_created_token_is_listed_without_its_text(
    engine: Engine, clock: ManualClock
) -> None:
    made = await issued(
        engine,
        roles=[Role.WORK, Role.SUBMIT],
        namespace="acme",
        lanes=["mail", "bulk"],
        expires_in_ms=DAY_MS,
        by="ops",
    )
    assert is_token(made.token)
    assert made.info == (await listed(engine))[0]
    assert (made.info.roles, made.info.lanes) == ([Role.SUBMIT, Role.WORK], ["bulk", "mail"])
    assert (made.info.created_by, made.info.expires_at_ms) == ("ops", clock() + DAY_MS)
    (row,) = (await engine.read_live_tokens()).rows
    assert row.digest == digest_of(made.token)
    stored = await engine.store.dump(("ff_api_token", "ff_operator_event"))
    assert made.token not in repr((stored, made, made.info, row))


async def test_two_tokens_have_different_texts_and_one_page_follows_another(engine: Engine) -> None:
    made = [await issued(engine, f"t{n}") for n in range(5)]
    assert len({each.token for each in made}) == 5
    names, cursor = [], None
    while True:
        page = await engine.list_tokens(2, cursor)
        names += [each.name for each in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert names == [f"t{n}" for n in range(5)]


async def test_the_name_of_a_live_token_is_in_use(engine: Engine, clock: ManualClock) -> None:
    first = await issued(engine, expires_in_ms=1_000)
    with pytest.raises(EngineError, match="name: a name that no other token has"):
        await issued(engine)
    clock.advance(1_000)
    second = await issued(engine)
    await engine.revoke_token(RevokeTokenArgs(token_id=second.info.token_id))
    third = await issued(engine)
    assert len({each.info.token_id for each in (first, second, third)}) == 3


async def test_a_rotation_overlaps_and_a_second_one_ends_the_overlap(
    engine: Engine, clock: ManualClock
) -> None:
    made = await issued(engine)
    ident = made.info.token_id
    second = await engine.rotate_token(RotateTokenArgs(token_id=ident, grace_ms=600_000))
    (row,) = (await engine.read_live_tokens()).rows
    assert (row.digest, row.former_digest) == (digest_of(second.token), digest_of(made.token))
    assert row.former_until_ms == clock() + 600_000
    assert second.info.rotated_at_ms == clock()
    third = await engine.rotate_token(RotateTokenArgs(token_id=ident))
    (row,) = (await engine.read_live_tokens()).rows
    assert (row.digest, row.former_digest) == (digest_of(third.token), None)
    assert [each.token_id for each in await listed(engine)] == [ident]


async def test_revoking_is_final_and_may_be_repeated(engine: Engine, clock: ManualClock) -> None:
    made = await issued(engine)
    ident = made.info.token_id
    revoked = await engine.revoke_token(RevokeTokenArgs(token_id=ident, by="ops"))
    assert revoked.revoked_at_ms == clock()
    clock.advance(1_000)
    assert await engine.revoke_token(RevokeTokenArgs(token_id=ident)) == revoked
    assert (await engine.read_live_tokens()).rows == []
    with pytest.raises(EngineError, match="neither revoked nor expired"):
        await engine.rotate_token(RotateTokenArgs(token_id=ident))


async def test_operators_learn_of_changes_without_secrets(engine: Engine) -> None:
    made = await issued(engine, namespace="acme", by="ann")
    ident = made.info.token_id
    rotated = await engine.rotate_token(RotateTokenArgs(token_id=ident, grace_ms=5, by="bob"))
    await engine.revoke_token(RevokeTokenArgs(token_id=ident, by="cy"))
    await engine.revoke_token(RevokeTokenArgs(token_id=ident, by="again"))
    rows = await engine.store.read_events("ff_operator_event", 0, 10)
    assert [(row[1], row[2], json.loads(row[3])["by"]) for row in rows] == [
        (ident, "token_created", "ann"),
        (ident, "token_rotated", "bob"),
        (ident, "token_revoked", "cy"),
    ]
    assert all(row[6] is None for row in rows)
    for text in (made.token, rotated.token):
        assert text not in repr(rows)
        assert digest_of(text).hex() not in repr(rows)


async def test_a_use_is_recorded_once_a_minute(engine: Engine, clock: ManualClock) -> None:
    ident = (await issued(engine)).info.token_id
    assert [await engine.touch_tokens([ident]) for _ in range(2)] == [1, 0]
    used = clock()
    clock.advance(59_999)
    assert await engine.touch_tokens([ident]) == 0
    assert (await listed(engine))[0].last_used_at_ms == used
    clock.advance(1)
    assert await engine.touch_tokens([ident, uuid4()]) == 1
    assert (await listed(engine))[0].last_used_at_ms == clock()


async def test_old_tokens_are_forgotten_when_another_is_created(
    engine: Engine, clock: ManualClock
) -> None:
    gone = await issued(engine, "revoked")
    await engine.revoke_token(RevokeTokenArgs(token_id=gone.info.token_id))
    await issued(engine, "expired", expires_in_ms=1)
    await issued(engine, "kept")
    clock.advance(rules.KEPT_MS)
    await issued(engine, "early")
    assert [each.name for each in await listed(engine)] == ["expired", "kept", "early"]
    clock.advance(1)
    await issued(engine, "late")
    assert [each.name for each in await listed(engine)] == ["kept", "early", "late"]


async def test_the_number_of_tokens_is_bounded(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "MAX_TOKENS", 2)
    await issued(engine, "a", expires_in_ms=1_000)
    await issued(engine, "b")
    with pytest.raises(EngineError, match="at most 2 tokens"):
        await issued(engine, "c")
    clock.advance(1_000)
    await issued(engine, "c")
    assert [each.name for each in await listed(engine)] == ["b", "c"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "fft_" + "a" * 43}, "name"),
        ({"roles": []}, "roles"),
        ({"roles": ["root"]}, "roles"),
        ({"namespace": ""}, "namespace"),
        ({"lanes": []}, "lanes"),
        ({"lanes": ["\x00"]}, "lanes"),
        ({"lanes": [f"l{n}" for n in range(model.MAX_TOKEN_LANES + 1)]}, "lanes"),
        ({"expires_in_ms": 0}, "expires_in_ms"),
        ({"expires_in_ms": model.MAX_TOKEN_AGE_MS + 1}, "expires_in_ms"),
        ({"by": "x" * 100_000}, "by"),
    ],
)
async def test_arguments_are_checked(engine: Engine, fields: dict[str, Any], named: str) -> None:
    args = structs.replace(CreateTokenArgs(name="a", roles=[Role.READ]), **fields)
    with pytest.raises(EngineError, match=rf"\b{named}: "):
        await engine.create_token(args)
    assert await listed(engine) == []


async def test_other_arguments_are_checked(engine: Engine) -> None:
    made = await issued(engine)
    for grace in (-1, model.MAX_TOKEN_GRACE_MS + 1):
        with pytest.raises(EngineError, match="grace_ms: "):
            await engine.rotate_token(RotateTokenArgs(token_id=made.info.token_id, grace_ms=grace))
    for ident in (UUID(int=1), uuid4()):
        with pytest.raises(EngineError, match=r"token .* not found"):
            await engine.revoke_token(RevokeTokenArgs(token_id=ident))
        with pytest.raises(EngineError, match=r"token .* not found"):
            await engine.rotate_token(RotateTokenArgs(token_id=ident))


async def test_nothing_is_logged(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        made = await issued(engine)
        await engine.rotate_token(RotateTokenArgs(token_id=made.info.token_id))
    assert made.token not in caplog.text
