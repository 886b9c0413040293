"""The text of an API token that a store knows, and its digest."""

from __future__ import annotations

import hashlib
import re

PREFIX = "fft_"
"""Scanners for secrets can recognise it."""
RANDOM_BYTES = 32
_TOKEN = re.compile(rf"{PREFIX}[0-9A-Za-z_-]{{43}}")


def is_token(text: str) -> bool:
    """Whether a text has the form of a token; says nothing about whether one exists."""
    return _TOKEN.fullmatch(text) is not None


def digest_of(token: str) -> bytes:
    """Plain SHA-256: a token has 256 random bits, so a slow or salted hash would add nothing."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
