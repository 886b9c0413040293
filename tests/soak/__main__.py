"""`python -m tests.soak --store postgres --minutes 30 [--seed N] [--rate N] [--keep]`"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from random import SystemRandom

from tests.chaos.child import Setup
from tests.chaos.child import Soak as Endless
from tests.chaos.fleet import CLIENTS
from tests.chaos.nemesis import ACTS, Pace
from tests.chaos.run import Scenario, run_in_folder
from tests.chaos.stores import STORES

from .gauge import ROLE, WORKER
from .watch import Soak

RATE = 12.0
TASKS_PER_EXECUTION = 0.2
PAUSE_S = (2.5, 7.5)
KILLS_PER_FREEZE = 8
RESTART_EVERY_S = 150.0
CUT_AFTER_S = (5.0, 15.0)
KEPT_MS = 60_000
SPARED = (ROLE, WORKER, "worker2")
"""One of each kind of long-lived process."""


def options_of(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tests.soak", description="A mixed load for many minutes, with faults."
    )
    parser.add_argument("--store", default="sqlite", choices=STORES)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument(
        "--rate", type=float, default=RATE, help=f"executions a second; {RATE:.0f} unless given"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the folder with the database and the logs"
    )
    options = parser.parse_args(words)
    if options.minutes < 1 or options.rate <= 0:
        parser.error("--minutes: at least 1; --rate: above 0")
    options.seed = SystemRandom().randrange(2**31) if options.seed is None else options.seed
    return options


def scenario_of(options: argparse.Namespace) -> Scenario:
    lasts_s = options.minutes * 60
    strikes = 0.9 * lasts_s / (sum(PAUSE_S) / 2)
    kills = sum(weight for (act, _), weight in ACTS.items() if act == "kill")
    executions = int(lasts_s * options.rate)
    told = f"--store {options.store} --minutes {options.minutes} --rate {options.rate}"
    return Scenario(
        store=options.store,
        setup=Setup(
            url="",
            folder="",
            instance="",
            seed=options.seed,
            executions=executions,
            tasks=int(executions * TASKS_PER_EXECUTION),
            rate=options.rate,
            soak=Endless(SPARED, KEPT_MS),
        ),
        kills=max(int(strikes * kills / sum(ACTS.values())), 1),
        restarts=0 if options.store == "sqlite" else max(int(lasts_s / RESTART_EVERY_S), 1),
        deadline_s=lasts_s * 1.5 + 180,
        command=f"{sys.executable} -m tests.soak {told} --seed {options.seed} --keep",
        pace=Pace(PAUSE_S, KILLS_PER_FREEZE, 0, lasts_s, SPARED),
        cut_after_s=CUT_AFTER_S,
        extra_roles=((ROLE, "tests.soak.gauge"),),
        clients=(*CLIENTS, ROLE),
        watch=partial(Soak, lasts_s, SPARED),
    )


def main(words: list[str]) -> int:
    options = options_of(words)
    return run_in_folder(scenario_of(options), keep=options.keep)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
