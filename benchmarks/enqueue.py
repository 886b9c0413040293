"""How fast jobs are enqueued: in bulk, and each committed before the next."""

from __future__ import annotations

from benchmarks.peers.children import ask
from benchmarks.peers.protocol import Reply
from benchmarks.peers.run import rated
from benchmarks.peers.turns import take_turns
from benchmarks.report import Measured

NAME = "enqueue"
EACH = 1_000
ROUNDS = 5
"""A round is over in a fifth of a second, so that a single moment decides one; all that takes
longer goes three.
"""


async def run(store: str, n: int, workers: int) -> list[Measured]:
    """One producer each, so `workers` does not count here."""
    each = min(n, EACH)

    async def bulk(system: str, url: str) -> Reply:
        return await ask(system, "enqueue-many", url, n)

    async def one_by_one(system: str, url: str) -> Reply:
        return await ask(system, "enqueue-each", url, each)

    many = rated(f"{NAME}/bulk", store, n, await take_turns(store, bulk, ROUNDS))
    return many + rated(
        f"{NAME}/one-by-one", store, each, await take_turns(store, one_by_one, ROUNDS)
    )
