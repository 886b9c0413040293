"""The parts of an engine and what each of them needs."""

# The protocols declare operations by the classes that are imported here.
# mypy: implicit-reexport

from __future__ import annotations

import random
from typing import TypeVar

from flowfabric.engine.bulk.bulk_actions import BulkActions
from flowfabric.engine.bulk.execution_actions import ExecutionActions
from flowfabric.engine.bulk.page_actions import PageActions
from flowfabric.engine.claims.admission import Admission
from flowfabric.engine.claims.claims import Claims
from flowfabric.engine.claims.gated_claims import GatedClaims
from flowfabric.engine.claims.grants import Grants
from flowfabric.engine.claims.idle_poll import IdlePoll
from flowfabric.engine.claims.limit_cache import LimitCache
from flowfabric.engine.claims.namespace_rotation import NamespaceRotation
from flowfabric.engine.claims.quota_cache import QuotaCache
from flowfabric.engine.claims.routing import Routing
from flowfabric.engine.core import Core, Settings
from flowfabric.engine.events.event_reader import EventReader
from flowfabric.engine.events.long_poll import LongPoll
from flowfabric.engine.executions.create import CreateExecutions
from flowfabric.engine.executions.deployment import Deployment
from flowfabric.engine.executions.execution_counts import CountExecutions
from flowfabric.engine.executions.explain import Explain
from flowfabric.engine.executions.history import History
from flowfabric.engine.executions.lanes import Lanes
from flowfabric.engine.executions.operator_actions import OperatorActions
from flowfabric.engine.executions.queries import Queries
from flowfabric.engine.executions.queue_stats import QueueCounts
from flowfabric.engine.executions.resolve import Resolve
from flowfabric.engine.executions.search import Search
from flowfabric.engine.flows.build import FlowBuilds
from flowfabric.engine.flows.cancels import FlowCancels
from flowfabric.engine.flows.dependencies import Dependencies
from flowfabric.engine.flows.flow_queries import FlowQueries
from flowfabric.engine.flows.replay import Replays
from flowfabric.engine.flows.sibling_cancels import SiblingCancels
from flowfabric.engine.leases.facts import LeaseCache
from flowfabric.engine.leases.holder import Holder
from flowfabric.engine.leases.named_calls import NamedCalls
from flowfabric.engine.leases.recovery import Recovery
from flowfabric.engine.limits.budget_maintenance import BudgetMaintenance
from flowfabric.engine.limits.budgets import Budgets
from flowfabric.engine.limits.quota_maintenance import QuotaMaintenance
from flowfabric.engine.limits.quotas import Quotas
from flowfabric.engine.streams.streams import Streams
from flowfabric.engine.tokens.tokens import ApiTokens
from flowfabric.engine.waits.approvals import Approvals
from flowfabric.engine.waits.signals import Signals
from flowfabric.engine.waits.signing_keys import SigningKeys
from flowfabric.engine.waits.suspend import Suspend
from flowfabric.engine.waits.waitpoint_queries import WaitpointQueries
from flowfabric.engine.workers.registry import WorkerRegistry
from flowfabric.engine.workers.retention import Retention
from flowfabric.engine.workers.schedules import Schedules
from flowfabric.engine.workers.steps import Steps
from flowfabric.engine.workers.tasks import Tasks
from flowfabric.ids import ExecutionId
from flowfabric.store.port import Store

Part = TypeVar("Part")


class Parts:
    """Builds the parts over one store. Operations are found by the class that declares them."""

    def __init__(self, store: Store, settings: Settings, seed: int | None) -> None:
        async def wake_parent(parent: ExecutionId, waitpoint_key: str) -> None:
            await signals.wake_parent(parent, waitpoint_key)

        jitter = random.Random(seed)  # noqa: S311 - jitter, not a secret
        core = self.core = Core(store, settings, jitter, wake_parent)
        self.leases = LeaseCache(store.tag)
        self.limit_cache, quota_cache = LimitCache(store), QuotaCache()
        self.gated = GatedClaims(store, self.limit_cache, quota_cache, core.telemetry)
        rotation, idle_poll = NamespaceRotation(store), IdlePoll(store)
        admission, lanes, actions = Admission(core), Lanes(core), OperatorActions(core)
        routing = Routing(core, rotation)
        claims = Claims(
            core,
            self.leases,
            routing,
            admission,
            self.gated,
            self.limit_cache,
            idle_poll,
            rotation,
        )
        create = CreateExecutions(core, lanes, self.limit_cache)
        dependencies = Dependencies(core, self.leases)
        cancels = FlowCancels(core)
        keys = SigningKeys(core)
        signals = Signals(core, self.leases, keys)
        waitpoints = WaitpointQueries(core)
        quotas = Quotas(core, self.limit_cache)
        upkeep = BudgetMaintenance(core)
        self.budgets = Budgets(core, self.leases, cancels, upkeep)
        self.streams = Streams(core, self.leases)
        self.steps = Steps(core, self.leases, self.limit_cache, self.gated)
        self.events = EventReader(store)
        long_poll = LongPoll(core, self.streams, self.steps, idle_poll, self.events)
        search, retention = Search(core), Retention(core, quota_cache)
        replays = Replays(core, dependencies)
        page_actions = PageActions(core, self.limit_cache, retention)
        self._parts: dict[str, object] = {}
        self._add(create, lanes, actions)
        queue_counts, counts = QueueCounts(core), CountExecutions(core)
        self._add(Queries(core), Resolve(core), search, Explain(core), History(core))
        self._add(counts, queue_counts, Deployment(core, search, counts, queue_counts))
        self._add(Tasks(core, self.limit_cache, routing))
        self._add(Grants(core, routing, admission, self.limit_cache, lanes, actions))
        self._add(claims, routing, Holder(core, self.leases, claims), NamedCalls(core))
        self._add(Recovery(core, admission, claims))
        self._add(FlowBuilds(core, self.leases, create, lanes), FlowQueries(core))
        self._add(dependencies, replays, cancels, SiblingCancels(core))
        self._add(
            Suspend(core, self.leases), signals, waitpoints, Approvals(core, waitpoints), keys
        )
        self._add(self.budgets, upkeep, quotas, QuotaMaintenance(core, quotas, actions))
        self._add(self.leases, self.streams, long_poll, self.steps)
        self._add(WorkerRegistry(core, routing), Schedules(core), retention)
        self._add(BulkActions(core, search, lanes, replays, page_actions))
        self._add(ExecutionActions(core, lanes, page_actions))
        self._add(ApiTokens(core))

    def _add(self, *parts: object) -> None:
        self._parts |= {type(part).__name__: part for part in parts}

    def named(self, declared_by: str) -> object:
        return self._parts[declared_by]

    def part(self, kind: type[Part]) -> Part:
        found = self._parts[kind.__name__]
        assert isinstance(found, kind)
        return found

    async def finish(self) -> None:
        """Waits for work that continues after a call is answered."""
        await self.gated.finish()
        await self.core.cascade.finish()
        await self.budgets.batcher.finish()
        await self.streams.writer.finish()
        await self.streams.watcher.stop()
