"""Only the exact stored token is accepted; every other input is refused."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from flowfabric.codec.token import fingerprint, mint, redacted, verify
from flowfabric.errors import ValidationError, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.signing_key import HmacKey

from .test_token import EXECUTION, K1, K2, NOW, TOKEN, WAITPOINT, retired

MUTATIONS = 5_000
KEYS = (K1, retired(K2, NOW), HmacKey("old", 1, 0, NOW - 1, b"o" * 32))
REFUSALS = [
    (ValidationKind.INVALID_TOKEN, code)
    for code in ("missing_token", "invalid_token", "token_expired")
]
HEX = "0123456789abcdef"
ODD = [*HEX, *"ABCDEFgGzZ:;-_ \n\t\0\x7f", "é", "\u0663", "\uff11", "\ud800", "😀"]


def _at(rnd: random.Random) -> int:
    return rnd.randrange(len(TOKEN))


def _digit(rnd: random.Random) -> str:
    at = rnd.randrange(3, len(TOKEN))
    return TOKEN[:at] + rnd.choice(HEX) + TOKEN[at + 1 :]


def _replace(rnd: random.Random) -> str:
    at = _at(rnd)
    return TOKEN[:at] + rnd.choice(ODD) + TOKEN[at + 1 :]


def _insert(rnd: random.Random) -> str:
    at = rnd.randrange(len(TOKEN) + 1)
    return TOKEN[:at] + "".join(rnd.choices(ODD, k=rnd.randint(1, 4))) + TOKEN[at:]


def _swap(rnd: random.Random) -> str:
    one, two = _at(rnd), _at(rnd)
    said = list(TOKEN)
    said[one], said[two] = said[two], said[one]
    return "".join(said)


def _cut(rnd: random.Random) -> str:
    return TOKEN[: _at(rnd)] if rnd.random() < 0.5 else TOKEN[_at(rnd) + 1 :]


def _upper(rnd: random.Random) -> str:
    return "".join(c.upper() if rnd.random() < 0.5 else c for c in TOKEN)


def _forge(rnd: random.Random) -> str:
    return f"{rnd.choice(['k1', 'kid-2', 'old', 'k2', ''])}:{''.join(rnd.choices(HEX, k=64))}"


def _other_secret(rnd: random.Random) -> str:
    return mint(HmacKey("k1", 1, 1, None, rnd.randbytes(32)), EXECUTION, WAITPOINT)


def _other_key(rnd: random.Random) -> str:
    signed = mint(rnd.choice(KEYS[1:]), EXECUTION, WAITPOINT)
    return signed if rnd.random() < 0.5 else f"k1:{signed.partition(':')[2]}"


def _other_waitpoint(rnd: random.Random) -> str:
    return mint(K1, EXECUTION, UUID(int=rnd.getrandbits(128)))


def _other_execution(rnd: random.Random) -> str:
    return mint(K1, ExecutionId.of(rnd.randrange(1, 256), EXECUTION.uuid), WAITPOINT)


def _rearranged(rnd: random.Random) -> str:
    kid, _, digest = TOKEN.partition(":")
    turned = [
        digest + ":" + kid,
        kid + digest,
        TOKEN * 2,
        TOKEN[::-1],
        f"{kid}:{digest[::-1]}",
        f"{TOKEN}:{digest}",
        ":" + TOKEN,
    ]
    return rnd.choice(turned)


WAYS: list[Callable[[random.Random], str]] = [
    _digit,
    _replace,
    _insert,
    _swap,
    _cut,
    _upper,
    _forge,
    _other_secret,
    _other_key,
    _other_waitpoint,
    _other_execution,
    _rearranged,
]


def opens(token: str) -> bool:
    try:
        verify(token, EXECUTION, WAITPOINT, TOKEN, KEYS, NOW)
    except ValidationError as error:
        refused = (error.kind, error.detail)
    else:
        return True
    assert refused in REFUSALS
    return False


def test_no_mutation_of_a_token_is_accepted() -> None:
    rnd = random.Random(20_240)
    tried: Counter[str] = Counter()
    while tried.total() < MUTATIONS:
        way = WAYS[tried.total() % len(WAYS)]
        token = way(rnd)
        tried[way.__name__] += 1
        assert opens(token) is (token == TOKEN), (way.__name__, ascii(token))
    assert min(tried.values()) >= MUTATIONS // len(WAYS)
    assert opens(TOKEN)


@settings(max_examples=500, deadline=None, derandomize=True, database=None)
@given(st.text(st.characters(), max_size=100), st.text(st.characters(), max_size=8))
def test_arbitrary_text_is_refused_or_is_the_token(text: str, prefix: str) -> None:
    for token in (
        text,
        f"{prefix}:{text}",
        prefix + TOKEN,
        TOKEN + prefix,
        f"{prefix}:{TOKEN[3:]}",
    ):
        assert opens(token) is (token == TOKEN)
        fingerprint(token)
        assert redacted(token).count("REDACTED") >= 1


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(
    st.uuids(),
    st.uuids(),
    st.integers(0, 255),
    st.binary(min_size=32, max_size=64),
    st.text("abc-_.9", min_size=1, max_size=9),
)
def test_every_minted_token_opens_its_own_waitpoint(
    owner: UUID, at: UUID, index: int, secret: bytes, kid: str
) -> None:
    key, execution = HmacKey(kid, 1, 1, None, secret), ExecutionId.of(index, owner)
    token = mint(key, execution, at)
    verify(token, execution, at, token, (key,), NOW)
    assert redacted(token) == f"{kid}:<REDACTED:len=64>"
    assert fingerprint(token) == (kid, token[len(kid) + 1 :][:16])
