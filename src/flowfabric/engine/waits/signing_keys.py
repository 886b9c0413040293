"""The keystore behind waitpoint tokens, as operations."""

from __future__ import annotations

from flowfabric.engine.flows.cancels import FlowCancels
from flowfabric.errors import EngineError
from flowfabric.model.signing_key import (
    AlreadySeeded,
    HmacKey,
    KidListing,
    RotationEntry,
    RotationNoop,
    Seeded,
)
from flowfabric.plan import Applied
from flowfabric.rules.waits import signing_keys
from flowfabric.store.port import Scan

MAX_KEYS = 1_000
KEYS = Scan("hmac_keys", limit=MAX_KEYS)


class SigningKeys(FlowCancels):
    async def _keys(self) -> tuple[list[HmacKey], int]:
        loaded = await self.store.load((KEYS,))
        return [HmacKey(*row) for row in loaded.rows[0]], loaded.now_ms

    async def seed_waitpoint_hmac_secret(self, kid: str, secret_hex: str) -> Seeded | AlreadySeeded:
        """Installs the first signing key; safe to call at every start."""
        signing_keys.check_seed(kid, secret_hex)
        secret = bytes.fromhex(secret_hex)
        result: Seeded | AlreadySeeded = await self.settle(
            self._keys, lambda found: signing_keys.seed(found[0], kid, secret, found[1])
        )
        return result

    async def rotate_waitpoint_hmac_secret_all(
        self, new_kid: str, new_secret_hex: str, grace_ms: int
    ) -> list[RotationEntry]:
        """A new signing key; tokens of the old one stay good for the grace."""
        problem = signing_keys.check_rotation(new_kid, new_secret_hex, grace_ms)
        if problem is not None:
            raise problem
        secret, tries = bytes.fromhex(new_secret_hex), 0
        while True:
            found, now = await self._keys()
            rotation = signing_keys.rotate(found, new_kid, secret, grace_ms, now)
            if isinstance(rotation, RotationNoop | EngineError):
                return [RotationEntry(0, rotation)]
            if isinstance(await self.store.commit_together(rotation.plans), Applied):
                return [RotationEntry(0, rotation.result)]
            tries += 1
            await self._pause(tries)

    async def list_waitpoint_hmac_kids(self) -> KidListing:
        """Which key signs, and whose tokens are still accepted. Never a secret."""
        return signing_keys.listing(*await self._keys())
