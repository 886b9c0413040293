"""Random graphs of up to 200 nodes against an oracle, on every store. FF_FLOW_EXAMPLES raises the
counts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowfabric.engine.engine import Engine
from flowfabric.testing import ManualClock
from tests.conftest import make_store, on_one_loop

from .driver import SETTINGS, Run
from .graphs import Shape, shapes
from .replays import Replays

EXAMPLES = {"memory": 60, "sqlite-memory": 10, "postgres": 4}


def budget(store: str) -> settings:
    return settings(
        max_examples=int(os.environ.get("FF_FLOW_EXAMPLES", EXAMPLES[store])),
        derandomize=not os.environ.get("FF_MODEL_RANDOM"),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def played(store: str, made: Callable[[Engine, ManualClock], Run]) -> None:
    with TemporaryDirectory() as folder:
        clock = ManualClock()
        engine = Engine(make_store(store, clock, Path(folder)), SETTINGS, seed=1)
        asyncio.run(on_one_loop(made(engine, clock).to_the_end(), (engine,)))
        if store != "postgres":
            asyncio.run(engine.close())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", sorted(EXAMPLES))
@pytest.mark.meets("flow", "quorum", "crash", "cancel")
def test_every_member_ends_as_the_oracle_predicts(store: str) -> None:
    @budget(store)
    @given(shape=shapes(200), together=st.booleans())
    def play(shape: Shape, together: bool) -> None:
        played(store, lambda engine, clock: Run(engine, clock, shape, together=together))

    play()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", sorted(EXAMPLES))
@pytest.mark.meets("flow", "quorum", "replay")
def test_every_flow_ends_after_any_replays(store: str) -> None:
    @budget(store)
    @given(shape=shapes(60))
    def play(shape: Shape) -> None:
        played(store, lambda engine, clock: Replays(engine, clock, shape))

    play()
