"""How fast a worker empties a queue, and how soon a caller knows the result of a job that another
process ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median

from benchmarks.peers.children import ask, ask_served
from benchmarks.peers.protocol import Reply
from benchmarks.peers.systems import RAW
from benchmarks.peers.turns import settle, take_turns
from benchmarks.report import Measured, percentile

NAME = "peers"


async def run_drain(store: str, n: int, workers: int) -> list[Measured]:
    """One worker process each, so `workers` does not count here."""

    async def turn(system: str, url: str) -> Reply:
        await ask(system, "enqueue-many", url, n)
        await settle(url)
        return await ask(system, "drain", url, n)

    replies = await take_turns(store, turn)
    return rated(f"{NAME}/drain", store, n, replies)


async def run_latency(store: str, n: int, workers: int) -> list[Measured]:
    """One caller and one worker each, so `workers` does not count here."""

    async def turn(system: str, url: str) -> Reply:
        return await ask_served(system, url, n)

    replies = await take_turns(store, turn)
    raw_p50 = _median_percentile(replies[RAW], 0.5)
    return [_timed(store, system, n, each, raw_p50) for system, each in replies.items()]


def rated(scenario: str, store: str, n: int, replies: dict[str, list[Reply]]) -> list[Measured]:
    """Jobs a second: the median of the rounds, beside that of the raw limit. The share of it is the
    middle one of the rounds'.
    """
    rates = {
        system: n / median(reply.seconds[0] for reply in each) for system, each in replies.items()
    }
    shares = {system: median(_shares(each, replies[RAW])) for system, each in replies.items()}
    return [
        Measured(
            scenario=scenario,
            store=store,
            system=_shown(system, replies[system]),
            n=n,
            ops_per_s=rate,
            raw_ops_per_s=rates[RAW],
            ratio_to_raw=shares[system],
        )
        for system, rate in rates.items()
    ]


def _shares(replies: Sequence[Reply], raw: Sequence[Reply]) -> list[float]:
    return [bare.seconds[0] / reply.seconds[0] for reply, bare in zip(replies, raw, strict=True)]


def _timed(store: str, system: str, n: int, replies: Sequence[Reply], raw_p50: float) -> Measured:
    """Here the ratio is of the medians of the latency, so lower is better."""
    p50 = _median_percentile(replies, 0.5)
    return Measured(
        scenario=f"{NAME}/latency",
        store=store,
        system=_shown(system, replies),
        n=n,
        ops_per_s=1 / median(mean(reply.seconds) for reply in replies),
        p50_ms=p50,
        p99_ms=_median_percentile(replies, 0.99),
        raw_ops_per_s=1000 / raw_p50,
        ratio_to_raw=p50 / raw_p50,
    )


def _median_percentile(replies: Sequence[Reply], share: float) -> float:
    return median(percentile(reply.seconds, share) for reply in replies)


def _shown(system: str, replies: Sequence[Reply]) -> str:
    settings = replies[0].settings
    return f"{system} ({settings})" if settings else system
