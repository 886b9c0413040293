from __future__ import annotations

import ast
import inspect
from types import ModuleType
from uuid import UUID

import pytest
from msgspec.structs import replace

from flowfabric.codec import token as tokens
from flowfabric.codec.token import (
    MAX_TOKEN_BYTES,
    active_key,
    fingerprint,
    mint,
    redacted,
    signing_key,
    verify,
)
from flowfabric.errors import ValidationError, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.signing_key import HmacKey
from flowfabric.rules.waits import signing_keys as key_rules

NOW = 1_000_000
EXECUTION = ExecutionId.of(0, UUID("11111111-1111-4111-8111-111111111111"))
WAITPOINT = UUID("22222222-2222-4222-8222-222222222222")
K1 = HmacKey("k1", 1, 1, None, b"\x2a" * 32)
K2 = HmacKey("kid-2", 1, 1, None, bytes.fromhex("00112233445566778899aabbccddeeff" * 2))
DIGEST = "106f4958ecd6aee7a33062cbb554bf0218d1493feed9c6a32e914675292ab5c8"
TOKEN = f"k1:{DIGEST}"
INVALID, EXPIRED, EMPTY = "invalid_token", "token_expired", "hmac_secret_not_initialized"


def retired(key: HmacKey, expires_at: int | None) -> HmacKey:
    return replace(key, active=0, expires_at_ms=expires_at)


def code(
    token: str,
    *keys: HmacKey,
    stored: str | None = TOKEN,
    execution: ExecutionId = EXECUTION,
    at: UUID = WAITPOINT,
) -> str:
    """The code of a refusal, or nothing for a token that is accepted."""
    try:
        verify(token, execution, at, stored, keys, NOW)
    except ValidationError as error:
        refused = error
    else:
        return ""
    assert refused.kind is ValidationKind.INVALID_TOKEN
    assert DIGEST not in str(refused)
    return refused.detail


@pytest.mark.parametrize(
    ("key", "token"),
    [(K1, TOKEN), (K2, "kid-2:60af3032c194d72e06489890a736b88c4c8361764752f1e2c81f903344f7367e")],
)
def test_golden_tokens(key: HmacKey, token: str) -> None:
    assert mint(key, EXECUTION, WAITPOINT) == token
    assert mint(key, EXECUTION, UUID(str(WAITPOINT).upper())) == token
    assert code(token, key, stored=token) == ""


def test_a_token_is_bound_to_its_kid_secret_execution_and_waitpoint() -> None:
    other = ExecutionId.of(1, EXECUTION.uuid)
    made = {
        mint(K1, EXECUTION, WAITPOINT),
        mint(replace(K1, kid="k2"), EXECUTION, WAITPOINT),
        mint(replace(K1, secret=b"\x2b" * 32), EXECUTION, WAITPOINT),
        mint(K1, other, WAITPOINT),
        mint(K1, EXECUTION, UUID(int=WAITPOINT.int + 1)),
    }
    assert len({token.partition(":")[2] for token in made}) == len(made)


def test_the_signing_key_is_the_active_one() -> None:
    old = retired(K1, NOW + 1)
    assert signing_key((old, K2)) is K2
    assert active_key((old,)) is None
    for keys in ((), (old,)):
        with pytest.raises(ValidationError) as caught:
            signing_key(keys)
        assert caught.value.kind is ValidationKind.INVALID_INPUT
        assert caught.value.detail == "hmac_secret_not_initialized: ff_waitpoint_hmac empty"


@pytest.mark.parametrize(
    "token",
    [
        "k1",
        DIGEST,
        f":{DIGEST}",
        "k1:",
        f"k1:{DIGEST[:-1]}",
        f"k1:{DIGEST}0",
        f"k1:{DIGEST[:-1]}g",
        f"k1:{DIGEST}\n",
        f" k1:{DIGEST} ",
        f"k1::{DIGEST}",
        f"k1:x:{DIGEST}",
        f"k1:0x{DIGEST[2:]}",
        f"k1:{DIGEST[:-1]}\u0663",
        "k" * MAX_TOKEN_BYTES + f":{DIGEST}",
    ],
)
def test_an_invalid_token_shape_is_refused_before_the_keys_are_read(token: str) -> None:
    assert code(token) == INVALID
    assert code(token, K1) == INVALID
    assert code(token, K1, stored=token) == INVALID


def test_the_order_of_the_checks() -> None:
    """Each line passes the checks before its own, and fails its own and all later ones."""
    forged = f"k1:{'0' * 64}"
    assert code("") == "missing_token"
    assert code("no colon") == INVALID
    assert code(forged) == EMPTY
    assert code(forged, retired(K1, NOW - 1)) == EMPTY
    assert code(forged, K2) == INVALID
    assert code(forged, K2, retired(K1, NOW - 1), stored=None) == EXPIRED
    assert code(forged, K1, stored=forged) == INVALID
    assert code(TOKEN, K1, stored=forged) == INVALID
    assert code(TOKEN, K1) == ""


@pytest.mark.parametrize(
    ("expires_at", "said"),
    [(None, EXPIRED), (0, EXPIRED), (-1, EXPIRED), (NOW - 1, EXPIRED), (NOW, ""), (NOW + 1, "")],
)
def test_a_retired_key_counts_to_the_end_of_its_grace(expires_at: int | None, said: str) -> None:
    assert code(TOKEN, retired(K1, expires_at), K2) == said


def test_an_active_key_has_no_end() -> None:
    assert code(TOKEN, replace(K1, expires_at_ms=NOW - 1)) == ""


@pytest.mark.parametrize(
    "token",
    [
        TOKEN[:-1] + "9",
        "k1:" + DIGEST.upper(),
        "K1:" + DIGEST,
        "k1 :" + DIGEST,
        "k1\n:" + DIGEST,
        mint(K2, EXECUTION, WAITPOINT),
        mint(K1, EXECUTION, UUID(int=5)),
        mint(K1, ExecutionId.of(1, EXECUTION.uuid), WAITPOINT),
        "k1:" + mint(K2, EXECUTION, WAITPOINT).partition(":")[2],
        "\ud800:" + DIGEST,
        "k1\ud800:" + DIGEST,
        "kä:" + DIGEST,
    ],
)
def test_only_the_stored_text_opens_a_waitpoint(token: str) -> None:
    assert code(token, K1, retired(K2, NOW)) == INVALID


@pytest.mark.parametrize(
    "stored", [None, "", "k1", TOKEN.upper(), TOKEN + "0", mint(K2, EXECUTION, WAITPOINT), "ä"]
)
def test_a_good_digest_is_not_enough(stored: str | None) -> None:
    """A waitpoint that is not there, or one that was given another token."""
    assert code(TOKEN, K1, stored=stored) == INVALID


def test_a_token_opens_no_other_waitpoint_and_no_other_execution() -> None:
    assert code(TOKEN, K1, at=UUID(int=5)) == INVALID
    assert code(TOKEN, K1, execution=ExecutionId.of(1, EXECUTION.uuid)) == INVALID


@pytest.mark.parametrize(
    ("token", "shown", "marks"),
    [
        (TOKEN, "k1:<REDACTED:len=64>", ("k1", DIGEST[:16])),
        ("", "<REDACTED:malformed>", ("", "")),
        (DIGEST, "<REDACTED:malformed>", ("", "")),
        (TOKEN + "0", "<REDACTED:malformed>", ("", "")),
    ],
)
def test_how_a_token_is_shown(token: str, shown: str, marks: tuple[str, str]) -> None:
    assert redacted(token) == shown
    assert fingerprint(token) == marks
    assert len(fingerprint(TOKEN)[1]) == 16


def compared(module: ModuleType) -> list[str]:
    """The expressions that are compared with ==, != or in, as source."""
    found = []
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for at, op in enumerate(node.ops):
                if isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
                    found += [ast.unparse(side) for side in sides[at : at + 2]]
    return found


@pytest.mark.parametrize("module", [tokens, key_rules])
def test_digests_and_secrets_are_compared_in_constant_time_only(module: ModuleType) -> None:
    public = {"key.kid", "kid", "new_kid", "':'"}
    assert set(compared(module)) <= public
    assert "hmac.compare_digest" in inspect.getsource(module)


def test_an_approvers_link_is_made_by_the_key_of_the_waitpoints_own_token() -> None:
    own = mint(K1, EXECUTION, WAITPOINT)
    link = tokens.of_approver(own, [K2, K1], EXECUTION, WAITPOINT, "ann")
    assert link is not None
    assert link != own
    assert tokens.of_approver(own, [K2], EXECUTION, WAITPOINT, "ann") is None
    assert verify(link, EXECUTION, WAITPOINT, own, [K1], NOW, ["bob", "ann"]) == "ann"


@pytest.mark.parametrize(
    ("own", "approvers"),
    [(TOKEN, []), (TOKEN, ["bob"]), (None, ["ann"]), (mint(K2, EXECUTION, WAITPOINT), ["ann"])],
)
def test_an_approvers_link_is_refused_for_others_and_for_another_token(
    own: str | None, approvers: list[str]
) -> None:
    link = mint(K1, EXECUTION, WAITPOINT, "ann")
    with pytest.raises(ValidationError, match="invalid_token"):
        verify(link, EXECUTION, WAITPOINT, own, [K1, K2], NOW, approvers)


# ---- what is stored of a token


def test_what_is_stored_shows_the_fingerprint_and_makes_the_token_again_by_its_key() -> None:
    own = tokens.mint(K1, EXECUTION, WAITPOINT)
    stored = tokens.sealed(own)
    assert own.partition(":")[2] not in stored
    assert tokens.digits_of(stored) == fingerprint(own)[1]
    assert tokens.again(stored, K1.kid, [K2, K1], EXECUTION, WAITPOINT) == own
    assert tokens.again(stored, K1.kid, [K2], EXECUTION, WAITPOINT) is None
    assert tokens.again(stored, K2.kid, [K2, K1], EXECUTION, WAITPOINT) is None
    assert tokens.again("", K1.kid, [K1], EXECUTION, WAITPOINT) is None


@pytest.mark.parametrize(
    "stored", ["", "malformed", "0" * 16, f"{'0' * 16}:{'g' * 64}", f"{'0' * 16}:{'0' * 65}"]
)
def test_what_is_no_sealed_token_shows_nothing(stored: str) -> None:
    assert tokens.digits_of(stored) == ""


def test_nothing_is_stored_of_no_token() -> None:
    assert tokens.sealed("") == ""
