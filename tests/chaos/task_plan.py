"""The task runs, from the seed alone: their namespaces and allowed ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import Struct

from flowfabric.sdk.children import JOIN

NAMESPACES = ("north", "south")
TASK_LANES = JOBS, MAIL = "jobs", "mail"
"""Both namespaces use the same lanes."""
LEASE_S, BLOCKED_S = 1.0, 2.2
"""A task that blocks the event loop does so for longer than two leases."""
RETENTION_MS = 4_000
PURSES, PURSE = 2, 3
"""Budgets of each kind, and what one spends: so many runs may spend, and all others are refused."""
PARENTS = ("family", "broken_family", "leaver")
QUORUM, HOPELESS, PROBE, BLOCKS = "quorum flow", "hopeless flow", "probe", "blocks"
ECHO, CHAT, TICK = "echo", "chat", "tick"
"""Of runs of many minutes: measured, followed while it writes, and submitted every minute."""
FRAMES = 8
SPENDERS = {
    "spends_or_fails": "failed",
    "spends_or_waits": "cancelled",
    "spends_or_says": "success",
}
"""How a run ends that is refused by its budget: the action of the budget decides, or the task does.
"""


class Order(Struct, frozen=True):
    """One submission of the client."""

    ordinal: int
    namespace: str
    kind: str
    delay_ms: int

    @property
    def key(self) -> str:
        return f"{self.namespace}-{self.ordinal}"


SHARES = {
    "steps": 14,
    "timed": 12,
    "slow_once": 5,
    "never_ready": 3,
    "flaky": 8,
    "doomed": 3,
    "overdue": 4,
    "in_time": 4,
    "spends_or_fails": 7,
    "spends_or_waits": 7,
    "spends_or_says": 7,
    "metered": 9,
    "family": 8,
    "broken_family": 3,
    "leaver": 4,
    "approved": 5,
    "approved_by_two": 4,
    "rejected": 4,
    "unanswered": 4,
    "waits": 3,
    QUORUM: 6,
    HOPELESS: 3,
}
RIGHT_ENDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "steps",
            "timed",
            "slow_once",
            "flaky",
            "in_time",
            "metered",
            "family",
            "blocks",
            "detached",
        ),
        ("success",),
    ),
    **dict.fromkeys(
        ("approved", "approved_by_two", "unanswered", "joins", PROBE, ECHO, CHAT, TICK),
        ("success",),
    ),
    **dict.fromkeys(("doomed", "rejected", "broken_family"), ("failed",)),
    **dict.fromkeys(("never_ready", "overdue"), ("expired",)),
    **dict.fromkeys(("leaver", "linger", "waits"), ("cancelled",)),
    **{kind: ("success", refused) for kind, refused in SPENDERS.items()},
    "racer": ("success", "cancelled"),
    "loser": ("failed", "cancelled"),
    "unreachable": ("skipped",),
    JOIN: ("success", "cancelled"),
}
"""By task. A lost worker, a frozen process or a stepped clock is no reason for another end."""
RIGHT_RESULTS: dict[str, Callable[[int, Any], bool]] = {
    "steps": lambda n, found: found["n"] == n and len(found["steps"]) == 3,
    "family": lambda n, found: found == [n, n, n],
    "approved": lambda n, found: found == "ann",
    "approved_by_two": lambda n, found: found == "ann and bob",
    "unanswered": lambda n, found: found == "too late",
    "spends_or_says": lambda n, found: found in ("spent", "refused"),
    **dict.fromkeys(("spends_or_fails", "spends_or_waits"), lambda n, found: found == "spent"),
    **dict.fromkeys(
        (
            "timed",
            "slow_once",
            "flaky",
            "in_time",
            "metered",
            "blocks",
            "detached",
            "racer",
            "joins",
            PROBE,
            ECHO,
            CHAT,
            TICK,
        ),
        lambda n, found: found == n,
    ),
}
"""What a run that succeeds returns, given its argument."""


def order(seed: int, ordinal: int) -> Order:
    rng = Random(f"{seed}/order/{ordinal}")
    kind = BLOCKS if ordinal % 40 == 3 else rng.choices(tuple(SHARES), tuple(SHARES.values()))[0]
    return Order(
        ordinal, rng.choice(NAMESPACES), kind, rng.randint(50, 1_500) if rng.random() < 0.1 else 0
    )


def purse_of(kind: str, ordinal: int) -> str:
    return f"{kind}/{ordinal % PURSES}"


def argument(payload: str) -> int:
    """The argument of every task."""
    return int(json.loads(payload)["n"])
