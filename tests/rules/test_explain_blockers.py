"""The reasons of claimable executions: lanes, reservations and workers."""

from __future__ import annotations

import pytest

from flowfabric.model.explanation import (
    Queue,
    Reservation,
    Routing,
    Why,
)
from flowfabric.model.worker import WorkerInfo

from .explain_factory import (
    MIN,
    SPENT,
    codes,
    explained,
    lane,
    worker,
)
from .factory import NOW


def test_the_first_of_the_lane_with_a_capable_worker() -> None:
    (reason,) = explained(workers=(worker(), worker("w-2", lanes=("other",))), ahead=0).reasons
    assert (
        reason.says
        == "it can be claimed, and 1 live worker can run it; it is the first of lane `default`"
    )
    assert reason.facts == Queue(0, 1, 1)
    assert reason.since_ms == NOW - 60_000


@pytest.mark.parametrize(
    ("ahead", "says"),
    [
        (1, "1 execution of lane `default` is ahead"),
        (12, "12 executions"),
        (None, "more than 1,000 executions"),
    ],
)
def test_the_number_of_executions_ahead(ahead: int | None, says: str) -> None:
    assert says in explained(ahead=ahead, workers=(worker(), worker("w-2"))).reasons[0].says


def test_no_live_worker_is_a_reason() -> None:
    (reason,) = explained(ahead=3, required_capabilities=("gpu",)).reasons
    assert reason.code is Why.NO_LIVE_WORKER and reason.facts == Queue(3, 0, 0)
    assert "no live worker is registered for lane `default` in namespace `default`" in reason.says
    elsewhere = explained(ahead=3, workers=(worker(lanes=("other",)),))
    assert codes(elsewhere) == ["no_live_worker"]


def test_a_reservation_is_a_reason() -> None:
    found = explained(
        reserved_for="bob",
        reserved_until_ms=NOW,
        workers=(worker(),),
        lane=lane("paused"),
        budgets=(SPENT,),
    )
    assert codes(found) == ["lane_paused", "reserved"]
    assert found.reasons[1].facts == Reservation("bob", NOW)
    assert codes(explained(reserved_for="bob", reserved_until_ms=NOW - 1, workers=(worker(),))) == [
        "waiting_for_worker"
    ]


# ---- lanes


@pytest.mark.parametrize(
    ("state", "code"), [("paused", "lane_paused"), ("disabled", "lane_disabled")]
)
def test_a_held_lane_is_a_reason(state: str, code: str) -> None:
    found = explained(lane=lane(state), workers=(worker(),))
    assert codes(found) == [code]
    assert "since 3 min ago" in found.reasons[0].says and found.reasons[0].since_ms == NOW - 3 * MIN
    assert found.reasons[0].hint == "flowfabric lanes resume default"


def test_a_draining_lane_is_the_last_reason() -> None:
    assert codes(explained(lane=lane("draining"), workers=(worker(),))) == [
        "waiting_for_worker",
        "lane_draining",
    ]
    assert codes(explained(lane=lane("active"), workers=(worker(),))) == ["waiting_for_worker"]


# ---- incapable workers


@pytest.mark.parametrize("vector", ["READY", "ROUTE"])
def test_missing_capabilities_and_the_nearest_worker(vector: str) -> None:
    there = (worker("far"), worker("near", "eu"), worker("off", "eu", lanes=("other",)))
    (reason,) = explained(vector, required_capabilities=("eu", "gpu"), workers=there).reasons
    assert reason.code is Why.WAITING_FOR_CAPABLE_WORKER
    assert reason.says == (
        "no live worker of namespace `default` on lane `default` offers `gpu`; "
        "the nearest, `near`, lacks `gpu`"
    )
    assert isinstance(reason.facts, Routing) and reason.facts.nearest is not None
    assert (reason.facts.required, reason.facts.missing_everywhere, reason.facts.live_workers) == (
        ("eu", "gpu"),
        ("gpu",),
        2,
    )
    assert (reason.facts.nearest.worker_instance_id, reason.facts.nearest.serves_lane) == (
        "near",
        True,
    )


def test_capabilities_that_no_single_worker_offers() -> None:
    (reason,) = explained(
        required_capabilities=("eu", "gpu"), workers=(worker("a", "eu"), worker("b", "gpu"))
    ).reasons
    assert "no single live worker" in reason.says and "offers all of `eu`, `gpu`" in reason.says


def test_the_only_capable_worker_serves_another_lane() -> None:
    (reason,) = explained(
        required_capabilities=("gpu",), workers=(worker("a", "gpu", lanes=("other",)), worker("b"))
    ).reasons
    assert reason.says.endswith("offers `gpu`; the nearest, `a`, serves other lanes")


def test_a_parked_execution_with_and_without_a_capable_worker() -> None:
    (alone,) = explained("ROUTE", required_capabilities=("gpu",)).reasons
    assert alone.says == "no live worker of namespace `default` on lane `default` offers `gpu`"
    found = explained(
        "ROUTE", required_capabilities=("gpu",), workers=(worker("a", "gpu"),), lane=lane("paused")
    )
    assert codes(found) == ["waiting_for_capable_worker", "lane_paused"]
    assert "a capable worker is registered now" in found.reasons[0].says


@pytest.mark.parametrize("vector", ["READY", "DELAYED"])
def test_a_task_name_that_no_worker_of_the_lane_declares(vector: str) -> None:
    there = (
        worker("a", "task:greet", "gpu"),
        worker("b", "task:send"),
        worker("off", "task:gret", lanes=("other",)),
    )
    found = explained(vector, execution_kind="gret", workers=there)
    assert codes(found) == [
        "waiting_for_capable_worker",
        *(["waiting_for_delay"] if vector == "DELAYED" else []),
    ]
    reason = found.reasons[0]
    assert (
        reason.says
        == "no live worker on lane `default` has a task `gret`; they have `greet`, `send`"
    )
    assert "if the name is mistyped, cancel it and submit it under the right one" in reason.hint
    assert isinstance(reason.facts, Routing) and reason.facts.missing_everywhere == ("task:gret",)


@pytest.mark.parametrize(
    ("there", "needs"),
    [
        ((), ()),
        ((worker("a", "task:gret"), worker("b", "task:send")), ()),
        ((worker("a", "task:send"), worker("of the engine", "gpu")), ()),
        ((worker("a", "task:send"),), ("task:send",)),
    ],
)
def test_a_task_that_a_worker_may_have_is_no_reason(
    there: tuple[WorkerInfo, ...], needs: tuple[str, ...]
) -> None:
    found = explained(execution_kind="gret", workers=there, required_capabilities=needs)
    assert "waiting_for_capable_worker" not in codes(found)
