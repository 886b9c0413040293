"""Arbitrary text is refused as a token; no other error is raised."""

from __future__ import annotations

from uuid import UUID

import pytest

from flowfabric.codec.token import fingerprint, redacted, verify
from flowfabric.errors import ValidationError
from flowfabric.ids import ExecutionId
from flowfabric.model.signing_key import HmacKey

EXECUTION = ExecutionId("{fp:0}:11111111-1111-4111-8111-111111111111")
WAITPOINT = UUID("22222222-2222-4222-8222-222222222222")
KEY = HmacKey("k1", 0, 1, None, b"\x2a" * 32)


@pytest.mark.parametrize("kid", ["\ud800", "k1\udfff", "é", "k1\x00", "k" * 500])
def test_text_that_no_key_is_called(kid: str) -> None:
    with pytest.raises(ValidationError, match="invalid_token"):
        verify(f"{kid}:{'0' * 64}", EXECUTION, WAITPOINT, None, [KEY], 0)


def test_half_a_character_makes_it_no_token() -> None:
    assert redacted("\ud800:" + "0" * 64) == "<REDACTED:malformed>"
    assert fingerprint("\ud800:" + "0" * 64) == ("", "")
