"""Load, decide, commit: the loop that every operation runs through."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Literal, TypeVar, get_args
from uuid import UUID

from msgspec import Struct

from flowfabric.engine import retry, validation
from flowfabric.engine.flows.cascade import Cascade
from flowfabric.engine.flows.child_flows import Wake
from flowfabric.engine.keyed_lock import KeyedLock
from flowfabric.engine.snapshots import Snapshots
from flowfabric.engine.telemetry import TelemetrySlot
from flowfabric.errors import EngineError, TransportError, invalid
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import HandleFields
from flowfabric.model.policy import MAX_DURATION_MS, RetryPolicy
from flowfabric.plan import Answer, Applied, Form, Plan, Refused
from flowfabric.rules.decision import DECIDE_AGAIN, Commit, Decided, Reject, Return, Snapshot
from flowfabric.rules.fence import check_handle
from flowfabric.rules.leases import attempts
from flowfabric.rules.retries import DEFAULT_RETRY_POLICY
from flowfabric.rules.workers.retention import DEFAULT_FAILED_RETENTION_MS, DEFAULT_RETENTION_MS
from flowfabric.store.port import Store

L = TypeVar("L")
R = TypeVar("R")


LeaseEvents = Literal["all", "transitions", "off"]


class Settings(Struct, frozen=True):
    """The settings of a deployment.

    A negative `lease_reclaim_grace_ms` switches the automatic requeue off. `retention_completed_ms`
    is the age at which completed, cancelled and skipped executions are removed,
    `retention_failed_ms` that of failed and expired ones; the policy of an execution takes
    precedence. `lease_events` is "all", "transitions", which omits the events of renewals, or
    "off", which omits every lease event.
    """

    default_retry_policy: RetryPolicy = DEFAULT_RETRY_POLICY
    lease_reclaim_grace_ms: int = 5_000
    retention_completed_ms: int = DEFAULT_RETENTION_MS
    retention_failed_ms: int = DEFAULT_FAILED_RETENTION_MS
    lease_events: LeaseEvents = "all"

    def checked(self) -> Settings:
        for field in ("retention_completed_ms", "retention_failed_ms"):
            validation.whole(getattr(self, field), field, 0, MAX_DURATION_MS)
        if self.lease_events not in get_args(LeaseEvents):
            raise invalid("lease_events", "all, transitions or off", self.lease_events)
        return self


class Core:
    """The store, the settings, and the decision loop. One per engine; the parts share it."""

    def __init__(
        self, store: Store, settings: Settings, random_source: random.Random, wake_parent: Wake
    ) -> None:
        self.store = store
        self.settings = settings
        self.random = random_source
        self.wake_parent = wake_parent
        self.snapshots = Snapshots(store)
        self.telemetry = TelemetrySlot()
        self.locks = KeyedLock()
        self.cascade = Cascade(store, wake_parent, self.telemetry)

    def over(self, store: Store) -> Core:
        """The core of a part that writes inside a transaction of the caller."""
        return Core(store, self.settings, self.random, self.wake_parent)

    # ---- decisions

    async def decide(
        self,
        ident: ExecutionId,
        rule: Callable[[Snapshot], Decided[R]],
        *,
        attempt_index: int | None = None,
        grant: bool = False,
        groups: bool = False,
        with_lists: bool = False,
    ) -> R:
        """Runs a rule over the snapshot of one execution."""
        load = partial(
            self.snapshots.load,
            ident,
            attempt_index=attempt_index,
            grant=grant,
            groups=groups,
            with_lists=with_lists,
        )
        return await self.run(load, rule)

    async def run(
        self,
        load: Callable[[], Awaitable[L]],
        rule: Callable[[L], Decided[R]],
        why: retry.Reason = retry.CHANGED,
        contended: Form | None = None,
    ) -> R:
        """Loads, decides and commits; a refused commit is decided again.

        Refusals by a plan of the form `contended` are counted apart from the others.
        """
        tries = contentions = 0
        while True:
            decision = rule(await load())
            if isinstance(decision, Return):
                return decision.result
            if isinstance(decision, Reject):
                await self.refuse(decision)
            assert isinstance(decision, Commit)
            if decision.first:
                answer = await self.commit_together((*decision.first, decision.plan))
            else:
                answer = await self.commit(decision.plan)
            if isinstance(answer, Applied):
                if decision.result is not DECIDE_AGAIN:
                    return _result(decision, answer)
            elif contended is not None and _refused(decision, answer).form is contended:
                contentions += 1
                await retry.pause(retry.CONTENDED, contentions)
            else:
                tries += 1
                await retry.pause(why, tries)

    async def run_fenced(
        self,
        fields: HandleFields,
        commit: Commit[R],
        outcome: str | None = None,
        *,
        marks: bool = True,
        lost: TransportError | None = None,
        may_have_children: bool = True,
        wait: bool = True,
    ) -> R:
        """A call of a lease holder: commits under the fence without a load.

        The rows are loaded only after a refusal or a lost answer. A call that ends an execution is
        recognised by its `outcome`: it is committed again after a lost answer, and if it had been
        applied, the refusal is explained as done. A call without an `outcome` is not committed
        again, and the caller gets the transport error. The caller gets it too when the rows show
        another state, because the call may have been applied before that state.
        """
        tries = 0
        while True:
            try:
                answer = await self.store.commit(commit.plan)
                if isinstance(answer, Applied):
                    alone = () if may_have_children else (fields.execution_id.uuid,)
                    await self.after_commit((commit.plan,), (answer,), alone=alone, wait=wait)
                    return _result(commit, answer)
            except TransportError as error:
                if not error.doubtful and lost is not None:
                    raise lost from error
                if not error.doubtful or outcome is None:
                    raise
                lost = error
            try:
                snapshot, _ = await self.snapshots.held(fields)
                why = attempts.explain_refusal(snapshot, fields, outcome, marks=marks)
                if isinstance(why, Return):
                    if commit.plan.form.ends:  # the first commit may have started no cascade
                        await self.cascade.ended((fields.execution_id,))
                    repeated: R = why.result
                    return repeated
                if why is not None:
                    await self.refuse(why)
                tries += 1
                await retry.pause(retry.CHANGED, tries)
            except EngineError as error:
                if lost is None:
                    raise
                raise lost from error

    async def check_held(self, fields: HandleFields, *, marks: bool = True) -> None:
        """Raises unless the lease is still held."""
        snapshot, _ = await self.snapshots.held(fields)
        refused = check_handle(snapshot, fields, marks=marks)
        if refused is not None:
            await self.refuse(refused)

    async def refuse(self, rejection: Reject) -> None:
        if rejection.mark is not None:
            await self.store.commit(rejection.mark)
        raise rejection.error

    async def pause(self, tries: int) -> None:
        await retry.pause(retry.CHANGED, tries)

    # ---- commits

    async def commit(self, plan: Plan) -> Answer:
        answer = await self.store.commit(plan)
        await self.after_commit((plan,), (answer,))
        return answer

    async def commit_each(self, plans: Sequence[Plan]) -> int:
        """Commits each plan on its own; returns how many were applied. Starts no cascade."""
        answers = await self.store.commit_many(plans) if plans else ()
        return sum(isinstance(answer, Applied) for answer in answers)

    async def commit_together(self, plans: Sequence[Plan]) -> Answer:
        """Commits all plans or none."""
        answer = await self.store.commit_together(plans)
        await self.after_commit(plans, [answer] * len(plans))
        return answer

    async def after_commit(
        self,
        plans: Sequence[Plan],
        answers: Sequence[object],
        *,
        alone: Collection[UUID] = (),
        wait: bool = True,
    ) -> int:
        """Starts the cascade for executions that these commits ended.

        An execution in `alone` has no children. If it has no flow either, nothing depends on it.
        Without `wait`, the caller waits for the cascade only when the cascade has a backlog.
        Returns the number of edges that the cascade resolved meanwhile.
        """
        ended = [
            ExecutionId.of(plan.values[plan.form.args.index("partition_key")], _uuid(plan))
            for plan, answer in zip(plans, answers, strict=True)
            if plan.form.ends and isinstance(answer, Applied)
            if _has_flow(plan, answer) or _uuid(plan) not in alone
        ]
        if ended:
            cascaded = self.cascade.ended(ended)
            if wait or self.cascade.is_behind:
                return (await cascaded).resolved
        return 0


def _uuid(plan: Plan) -> UUID:
    found: UUID = plan.values[plan.form.args.index("execution_id")]
    return found


def _refused(commit: Commit, answer: Refused) -> Plan:
    return (*commit.first, commit.plan)[answer.plan]


def _has_flow(plan: Plan, answer: Applied) -> bool:
    """Whether the execution has a flow. It may have joined one after its claim, elsewhere."""
    if plan.form.returning != ("flow_id",):
        return True
    (flow_id,) = answer.row
    return flow_id is not None


def _result(commit: Commit[R], answer: Applied) -> R:
    return commit.result(answer) if callable(commit.result) else commit.result
