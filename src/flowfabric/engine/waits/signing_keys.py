"""The signing keys of waitpoint tokens, and tokens derived from them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap

from flowfabric.codec import token as tokens
from flowfabric.engine.core import Core
from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId
from flowfabric.model import signing_key as model
from flowfabric.model.waitpoint import Waitpoint
from flowfabric.rules.decision import Commit, Decided, Return
from flowfabric.rules.waits import signing_keys
from flowfabric.store.port import Scan

MAX_KEYS = 1_000
KEYS = Scan("hmac_keys", limit=MAX_KEYS)


def token_of(waitpoint: Waitpoint, keys: Sequence[model.HmacKey]) -> str | None:
    """The token of a waitpoint, derived again. None when its signing key has been removed."""
    ident = ExecutionId.of(waitpoint.partition_key, waitpoint.execution_id)
    return tokens.again(
        waitpoint.token_digest, waitpoint.token_kid, keys, ident, waitpoint.waitpoint_id
    )


def token_or_refused(waitpoint: Waitpoint, keys: Sequence[model.HmacKey]) -> str:
    """As `token_of`; without the key, a text in the form of a token that no key accepts."""
    return token_of(waitpoint, keys) or f"{waitpoint.token_kid}:{'0' * 64}"


class SigningKeys:
    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store

    async def keys(self) -> tuple[list[model.HmacKey], int]:
        """All keys, and the clock of the store."""
        loaded = await self._store.load((KEYS,))
        (rows,) = loaded.rows
        return list(starmap(model.HmacKey, rows)), loaded.now_ms

    async def seed_waitpoint_hmac_secret(
        self, kid: str, secret_hex: str
    ) -> model.Seeded | model.AlreadySeeded:
        """Installs the first signing key. It may be called at every start."""
        signing_keys.check_seed(kid, secret_hex)
        secret = bytes.fromhex(secret_hex)
        return await self._core.run(
            self.keys, lambda found: signing_keys.seed(found[0], kid, secret, found[1])
        )

    async def rotate_waitpoint_hmac_secret_all(
        self, new_kid: str, new_secret_hex: str, grace_ms: int
    ) -> list[model.RotationEntry]:
        """Installs a new signing key. Tokens of the old key stay valid for `grace_ms`."""
        problem = signing_keys.check_rotation(new_kid, new_secret_hex, grace_ms)
        if problem is not None:
            raise problem
        secret = bytes.fromhex(new_secret_hex)

        def rule(found: tuple[list[model.HmacKey], int]) -> Decided[list[model.RotationEntry]]:
            keys, now = found
            rotation = signing_keys.rotate(keys, new_kid, secret, grace_ms, now)
            if isinstance(rotation, model.RotationNoop | EngineError):
                return Return([model.RotationEntry(0, rotation)])
            *first, last = rotation.plans
            return Commit(last, [model.RotationEntry(0, rotation.result)], tuple(first))

        return await self._core.run(self.keys, rule)

    async def list_waitpoint_hmac_kids(self) -> model.KidListing:
        """The id of the key that signs, and the ids of keys that still verify."""
        return signing_keys.listing(*await self.keys())
