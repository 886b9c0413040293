"""`python -m tests.chaos --store postgres --kills 20 [--restarts N] [--seed N] [--executions N]
[--appendfsync everysec] [--keep]`
"""

from __future__ import annotations

import argparse
import sys
from random import SystemRandom

from .child import Setup
from .run import Scenario, run_in_folder
from .stores import STORES
from .valkey_case import APPENDFSYNC

KILLS_PER_S = 2.0
EXECUTIONS_PER_KILL = 30
TASKS_PER_KILL = 5
SERVER_RESTARTS = 3


def options_of(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tests.chaos", description="Kills processes at random and checks what is left."
    )
    parser.add_argument("--store", default="sqlite", choices=STORES)
    parser.add_argument("--kills", type=_positive, default=20)
    parser.add_argument(
        "--restarts",
        type=int,
        default=None,
        help=f"of the server; {SERVER_RESTARTS} on postgres and valkey unless given",
    )
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument(
        "--executions",
        type=_positive,
        default=None,
        help=f"{EXECUTIONS_PER_KILL} per kill unless given",
    )
    parser.add_argument(
        "--tasks",
        type=_positive,
        default=None,
        help=f"runs of tasks; {TASKS_PER_KILL} per kill unless given",
    )
    parser.add_argument(
        "--deadline", type=float, default=None, help="seconds; grows with the work unless given"
    )
    parser.add_argument(
        "--appendfsync",
        default=None,
        choices=APPENDFSYNC,
        help="of the Valkey server; always unless given",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the folder with the database and the logs"
    )
    options = parser.parse_args(words)
    options.seed = SystemRandom().randrange(2**31) if options.seed is None else options.seed
    if options.restarts is None:
        options.restarts = 0 if options.store == "sqlite" else SERVER_RESTARTS
    if options.restarts < 0:
        parser.error(f"--restarts {options.restarts}: at least 0")
    if options.restarts and options.store == "sqlite":
        parser.error(
            f"--restarts {options.restarts}: SQLite has no server to restart; leave it out, or "
            f"use --store postgres or --store valkey"
        )
    if options.appendfsync and options.store != "valkey":
        parser.error("--appendfsync: accepted with --store valkey only")
    options.executions = options.executions or EXECUTIONS_PER_KILL * options.kills
    options.tasks = options.tasks or TASKS_PER_KILL * options.kills
    return options


def _positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return int(text)


def scenario_of(options: argparse.Namespace) -> Scenario:
    work = (
        1.5 * options.kills + 0.02 * options.executions + 0.2 * options.tasks + 5 * options.restarts
    )
    told = {
        name: getattr(options, name)
        for name in ("store", "kills", "restarts", "seed", "executions", "tasks")
    }
    if options.appendfsync:
        told["appendfsync"] = options.appendfsync
    words = " ".join(f"--{name} {value}" for name, value in told.items())
    return Scenario(
        store=options.store,
        setup=Setup(
            url="",
            folder="",
            instance="",
            seed=options.seed,
            executions=options.executions,
            tasks=options.tasks,
            rate=options.executions / options.kills * KILLS_PER_S,
        ),
        kills=options.kills,
        restarts=options.restarts,
        appendfsync=options.appendfsync or "always",
        deadline_s=options.deadline or 60 + work,
        command=f"{sys.executable} -m tests.chaos {words} --keep",
    )


def main(words: list[str]) -> int:
    options = options_of(words)
    return run_in_folder(scenario_of(options), keep=options.keep)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
