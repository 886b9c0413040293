from __future__ import annotations

import json
from uuid import UUID

import pytest
from msgspec import structs

from flowfabric.codec.api_token import PREFIX, digest_of, is_token
from flowfabric.model import api_token as model
from flowfabric.model.api_token import (
    ApiTokenRow,
    CreateTokenArgs,
    IssuedToken,
    RevokeTokenArgs,
    Role,
    RotateTokenArgs,
)
from flowfabric.plan import Applied
from flowfabric.rules.decision import Commit, Reject, Return
from flowfabric.rules.tokens import tokens
from flowfabric.rules.tokens.tokens import TokenRows

NOW, IDENT = 1_000_000, UUID(int=1)
TEXT = PREFIX + "a" * 43
DIGEST = digest_of(TEXT)
ARGS = CreateTokenArgs(name="web", roles=[Role.WORK, Role.READ, Role.WORK], by="ann")


def row(ident: UUID = IDENT, **fields: object) -> ApiTokenRow:
    known = ApiTokenRow(
        ident, "web", b"d", None, None, '["read"]', None, None, 1, "", None, None, None, None, 3
    )
    return structs.replace(known, **fields)


def values(commit: Commit) -> dict[str, object]:
    return dict(zip(commit.plan.form.args, commit.plan.values, strict=True))


def made(decision: object) -> Commit:
    assert isinstance(decision, Commit)
    return decision


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (TEXT, True),
        (TEXT + "a", False),
        (TEXT[:-1], False),
        (TEXT[:-1] + "é", False),
        ("", False),
        (TEXT.replace(PREFIX, "abc_"), False),
    ],
)
def test_the_form_of_a_token(text: str, good: bool) -> None:
    assert is_token(text) is good


def test_a_new_token_stores_its_digest_and_sorted_lists() -> None:
    args = structs.replace(ARGS, lanes=["b", "a"], namespace="acme", expires_in_ms=5)
    decision = made(tokens.create(TokenRows(NOW, []), args, IDENT, TEXT, DIGEST))
    stored = values(decision)
    assert (stored["digest"], stored["roles"], stored["lanes"]) == (
        DIGEST,
        '["read","work"]',
        '["a","b"]',
    )
    assert stored["expires_at_ms"] == NOW + 5
    details = json.loads(str(stored["details"]))
    assert (details["by"], details["roles"], details["lanes"]) == (
        "ann",
        ["read", "work"],
        ["a", "b"],
    )
    issued = decision.result
    assert isinstance(issued, IssuedToken)
    assert TEXT not in repr((decision, issued, row(digest=DIGEST)))
    assert (issued.token, issued.info.is_live(NOW), issued.info.is_live(NOW + 5)) == (
        TEXT,
        True,
        False,
    )


def test_an_author_may_be_unknown() -> None:
    args = structs.replace(ARGS, by="")
    decision = made(tokens.create(TokenRows(NOW, []), args, IDENT, TEXT, DIGEST))
    assert "by" not in json.loads(str(values(decision)["details"]))


@pytest.mark.parametrize(
    ("other", "free"),
    [({}, False), ({"expires_at_ms": NOW}, True), ({"name": "x"}, True)],
)
def test_the_name_of_a_live_token_is_refused(other: dict[str, object], free: bool) -> None:
    found = TokenRows(NOW, [row(UUID(int=2), **other)])
    decision = tokens.create(found, ARGS, IDENT, TEXT, DIGEST)
    assert isinstance(decision, Commit if free else Reject)


def test_a_full_table_forgets_expired_tokens_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "MAX_TOKENS", 2)
    live = [row(UUID(int=n), name=f"t{n}") for n in (2, 3)]
    refused = tokens.create(TokenRows(NOW, live), ARGS, IDENT, TEXT, DIGEST)
    assert isinstance(refused, Reject)
    expired = structs.replace(live[1], expires_at_ms=NOW)
    decision = made(tokens.create(TokenRows(NOW, [live[0], expired]), ARGS, IDENT, TEXT, DIGEST))
    assert [plan.form for plan in decision.first] == [tokens.FORGET]


def test_old_revoked_tokens_are_forgotten() -> None:
    now = NOW + tokens.KEPT_MS
    revoked = [row(UUID(int=2), revoked_at_ms=NOW), row(UUID(int=3), revoked_at_ms=NOW + 1)]
    decision = made(tokens.create(TokenRows(now, [], revoked), ARGS, IDENT, TEXT, DIGEST))
    assert [plan.values for plan in decision.first] == [(UUID(int=2), 3)]


@pytest.mark.parametrize("grace", [0, 7])
def test_a_rotation_keeps_the_former_digest_for_its_grace(grace: int) -> None:
    args = RotateTokenArgs(token_id=IDENT, grace_ms=grace)
    decision = made(tokens.rotate(TokenRows(NOW, [row(lanes='["a"]')]), args, TEXT, DIGEST))
    stored = values(decision)
    former = (b"d", NOW + grace) if grace else (None, None)
    assert (stored["former_digest"], stored["former_until_ms"]) == former
    assert (stored["digest"], stored["version"]) == (DIGEST, 3)


@pytest.mark.parametrize("fields", [{"revoked_at_ms": 1}, {"expires_at_ms": NOW}, None])
def test_only_live_tokens_are_rotated(fields: dict[str, object] | None) -> None:
    rows = [] if fields is None else [row(**fields)]
    args = RotateTokenArgs(token_id=IDENT)
    assert isinstance(tokens.rotate(TokenRows(NOW, rows), args, TEXT, DIGEST), Reject)


def test_revoking() -> None:
    args = RevokeTokenArgs(token_id=IDENT)
    decision = made(tokens.revoke(TokenRows(NOW, [row()]), args))
    assert values(decision)["now"] == NOW
    result = decision.result(Applied(NOW)) if callable(decision.result) else decision.result
    assert (result.revoked_at_ms, result.is_live(NOW)) == (NOW, False)
    again = tokens.revoke(TokenRows(NOW, [row(revoked_at_ms=5)]), args)
    assert isinstance(again, Return)
    assert again.result.revoked_at_ms == 5
    assert isinstance(tokens.revoke(TokenRows(NOW, []), args), Reject)


def test_a_use_is_written_unless_there_was_one_within_a_minute() -> None:
    assert tokens.touch(IDENT, NOW).values == (IDENT, NOW - 60_000)
