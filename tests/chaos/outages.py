"""Outages of the server: crashes and fast shutdowns in turn. A crash rarely falls between a commit
and its answer, so answers are dropped in between.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random

from .logs import Log
from .stores import StoreCase

AWAY_S = (0.0, 1.5)
AT_WORK_S = 1.0
CUT_AFTER_S = (0.2, 1.0)


class Outages:
    """Distributed over the kills. Outages and kills overlap, so processes also end and start
    without a server.
    """

    def __init__(
        self,
        case: StoreCase,
        restarts: int,
        kills: int,
        seed: int,
        log: Log,
        cut_after_s: tuple[float, float] = CUT_AFTER_S,
    ) -> None:
        self._case, self._log, self._cut_after_s = case, log, cut_after_s
        self._rng = Random(f"{seed}/outages")
        self._spread = restarts > 0
        self._due = [kills * (number + 0.5) / restarts for number in range(restarts)]
        self._beside = ThreadPoolExecutor(1)
        self._under_way: Future[None] | None = None
        self._not_before = 0.0
        self._cut_at = self._next_cut()
        self.done = {"crash": 0, "shutdown": 0}
        self.cut = 0

    @property
    def over(self) -> bool:
        return not self._due and self._under_way is None

    @property
    def is_under_way(self) -> bool:
        return self._under_way is not None

    def tend(self, kills: int) -> None:
        """Starts the next outage when it is due and the last is over. Raises the error of an
        outage.
        """
        if self._under_way is not None and self._under_way.done():
            self._under_way.result()
            self._under_way = None
            self._not_before = time.monotonic() + AT_WORK_S
        if self._under_way is None and self._spread and time.monotonic() >= self._cut_at:
            self.cut += self._case.cut()
            self._cut_at = self._next_cut()
        if (
            self._under_way is None
            and self._due
            and kills >= self._due[0]
            and time.monotonic() >= self._not_before
        ):
            del self._due[0]
            how = "shutdown" if sum(self.done.values()) % 2 else "crash"
            self.done[how] += 1
            self._under_way = self._beside.submit(self._restart, how, self._rng.uniform(*AWAY_S))

    def _next_cut(self) -> float:
        return time.monotonic() + self._rng.uniform(*self._cut_after_s)

    def _restart(self, how: str, seconds: float) -> None:
        self._log.write("note", "down", how=how)
        self._case.take_down(crash=how == "crash")
        time.sleep(seconds)
        self._case.bring_up()
        self._log.write("note", "up", how=how)

    def close(self) -> None:
        """Waits for the outage in progress."""
        self._beside.shutdown(cancel_futures=True)
