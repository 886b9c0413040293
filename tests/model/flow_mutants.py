"""Planted bugs of flows, for the machine of flows to notice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from flowfabric.engine.flows.cascade import Cascade
from flowfabric.engine.flows.dependencies import Dependencies
from flowfabric.engine.flows.member_cancels import MemberCancels
from flowfabric.engine.flows.sibling_cancels import SiblingCancels
from flowfabric.engine.leases.holder import Holder
from flowfabric.ids import ExecutionId
from flowfabric.model.flow import Cascaded
from flowfabric.plan import Now
from flowfabric.rules.executions import replay, termination
from flowfabric.rules.flows import cancels, edges, flows, wait_children

from .mutants import Patch, Plant, put, put_ending, with_set, without_guards, without_steps

FLOW_MUTANTS: dict[str, Plant] = {}
RESOLVING = ("RESOLVE", "RESOLVE_AND_RELEASE", "RESOLVE_AND_QUEUE")


def mutant(plant: Plant) -> Plant:
    FLOW_MUTANTS[plant.__name__] = plant
    return plant


@mutant
def group_fires_twice(patch: Patch) -> None:
    honest = edges.count_ends

    def count_ends(group: Any, ends: Any, now_ms: int) -> Any:
        return honest(structs.replace(group, group_state="pending"), ends, now_ms)

    patch.setattr(edges, "count_ends", count_ends)


@mutant
def skip_not_propagated(patch: Patch) -> None:
    async def run(cascade: Any, idents: Any) -> Cascaded:
        count, _ = await cascade._round(list(dict.fromkeys(idents)))
        return Cascaded(count, 0)

    patch.setattr(Cascade, "_run", run)


@mutant
def skip_not_told(patch: Patch) -> None:
    put_ending(
        patch,
        termination,
        "SKIP",
        lambda f: without_steps(f, "ff_completion_event"),
        "pending",
    )


@mutant
def counters_not_guarded_by_version(patch: Patch) -> None:
    for name in RESOLVING:
        put(patch, edges, name, lambda f: without_guards(f, "version"))


@mutant
def siblings_not_cancelled(patch: Patch) -> None:
    async def cancel_siblings(*_: Any) -> list[ExecutionId]:
        return []

    patch.setattr(MemberCancels, "cancel_siblings", cancel_siblings)


@mutant
def siblings_of_a_dead_process_not_cancelled(patch: Patch) -> None:
    async def dispatch(*_: Any, **__: Any) -> dict[str, int]:
        return {"dispatched": 0}

    patch.setattr(SiblingCancels, "dispatch_sibling_cancels", dispatch)


@mutant
def edge_counted_twice_after_a_crash(patch: Patch) -> None:
    for name in RESOLVING:
        put(patch, edges, name, lambda f: without_steps(f, "ff_edge"))


@mutant
def ends_of_a_dead_process_not_dispatched(patch: Patch) -> None:
    async def dispatch(*_: Any) -> int:
        return 0

    patch.setattr(Dependencies, "dispatch_completions", dispatch)


@mutant
def old_failure_counts_again_after_a_replay(patch: Patch) -> None:
    patch.setattr(edges, "counts_after_replay", lambda *_, **__: True)


@mutant
def replay_does_not_wait_again(patch: Patch) -> None:
    patch.setattr(wait_children, "_waits_again", lambda edge: edge.dep_state == "unsatisfied")


@mutant
def replay_leaves_the_group_decided(patch: Patch) -> None:
    put(patch, wait_children, "RESET_GROUP", lambda f: with_set(f, group_state="impossible"))


@mutant
def replay_leaves_its_flow_settled(patch: Patch) -> None:
    for name in ("REPLAY", "REPLAY_SKIPPED"):
        put(patch, replay, name, lambda f: without_steps(f, "ff_flow_core"))


@mutant
def flow_is_settled_while_members_run(patch: Patch) -> None:
    put(patch, flows, "PROJECT", lambda f: with_set(f, settled_at_ms=Now()))


@mutant
def loser_of_a_join_fails_its_flow(patch: Patch) -> None:
    patch.setattr(flows, "count_losers", lambda members: 0)


@mutant
def every_cancel_is_harmless_to_its_flow(patch: Patch) -> None:
    patch.setattr(
        flows,
        "count_losers",
        lambda members: sum(member.public_state == "cancelled" for member in members),
    )


@mutant
def late_edge_does_not_block(patch: Patch) -> None:
    put(patch, edges, "APPLY", lambda f: without_steps(f, "ff_exec_core"))


@mutant
def cancelled_flow_leaves_its_members(patch: Patch) -> None:
    patch.setattr(cancels, "members_to_cancel", lambda *_: [])


@mutant
def quorum_needs_one_less(patch: Patch) -> None:
    honest = edges.evaluate

    def evaluate(group: Any) -> str:
        enough = '"k":2' in group.policy and group.success_count >= 1
        return "satisfied" if enough else honest(group)

    patch.setattr(edges, "evaluate", evaluate)


def hearing(patch: Patch, change: Callable[[Sequence[ExecutionId]], Sequence[ExecutionId]]) -> None:
    """The cascade gets other executions than those that ended beside a claim."""
    honest = Holder._after_completions

    async def settled(self: Holder, *said: Any, **more: Any) -> Any:
        cascade = self._core.cascade
        ended = cascade.ended
        with patch.context() as inner:
            inner.setattr(cascade, "ended", lambda idents: ended(change(idents)))
            return await honest(self, *said, **more)

    patch.setattr(Holder, "_after_completions", settled)


@mutant
def ends_beside_a_claim_are_not_heard(patch: Patch) -> None:
    hearing(patch, lambda _: [])


@mutant
def one_of_the_ends_beside_a_claim_is_heard(patch: Patch) -> None:
    hearing(patch, lambda ended: ended[:1])
