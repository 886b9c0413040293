"""The keys that sign waitpoint tokens, and the results of seeding and rotating them."""

from __future__ import annotations

from msgspec import Struct


class HmacKey(Struct, frozen=True):
    """A row of `ff_waitpoint_hmac`."""

    kid: str
    rotated_at_ms: int
    active: int
    expires_at_ms: int | None
    secret: bytes

    def is_over(self, now_ms: int) -> bool:
        return self.expires_at_ms is None or self.expires_at_ms <= 0 or self.expires_at_ms < now_ms

    def __repr__(self) -> str:
        return f"HmacKey({self.kid!r}, active={bool(self.active)})"


class Seeded(Struct, frozen=True, tag=True):
    kid: str


class AlreadySeeded(Struct, frozen=True, tag=True):
    kid: str
    same_secret: bool


class Rotated(Struct, frozen=True, tag=True):
    previous_kid: str | None
    new_kid: str
    gc_count: int


class RotationNoop(Struct, frozen=True, tag=True):
    kid: str


class RotationEntry(Struct, frozen=True):
    """The outcome for one partition; `result` may be the error of its rotation."""

    partition: int
    result: Rotated | RotationNoop | Exception


class KidListing(Struct, frozen=True):
    """The id of the signing key, and the keys whose tokens are accepted until their expiry."""

    current_kid: str | None
    verifying: tuple[tuple[str, int], ...]
