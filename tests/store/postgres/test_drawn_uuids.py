"""New uuids of a sweep: the caller draws their bytes, each row takes its own."""

from __future__ import annotations

from uuid import RFC_4122, UUID

from flowfabric import ClaimPolicy
from flowfabric.codec.handle import decode_fields
from flowfabric.store.postgres.codec import random_uuids
from flowfabric.store.postgres.connections import Options
from tests.engine.helpers import LANE, create

from .helpers import engine_on


def test_random_bytes_are_uuids_of_version_4() -> None:
    drawn = random_uuids(100)
    made = {UUID(bytes=drawn[at : at + 16]) for at in range(0, len(drawn), 16)}
    assert len(made) == 100
    assert {(each.version, each.variant) for each in made} == {(4, RFC_4122)}


async def test_every_claim_of_a_statement_has_uuids_of_its_own(options: Options) -> None:
    async with engine_on(options) as engine:
        for _ in range(5):
            await create(engine)
        works = await engine.claim_many(LANE, (), ClaimPolicy("w", "w-1", 60_000), 5)
    leases = [decode_fields(work.handle.opaque) for work in works]
    drawn = {ident for lease in leases for ident in (lease.attempt_id, lease.lease_id)}
    assert len(drawn) == 10 and {ident.version for ident in drawn} == {4}
