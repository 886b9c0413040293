"""The engine: every operation, once, over any store."""

from __future__ import annotations

from flowfabric.engine.core import Settings
from flowfabric.engine.events.long_poll import LongPoll
from flowfabric.model.lease import Capabilities
from flowfabric.store.port import Store

FLAGS = (
    "cancel_execution",
    "change_priority",
    "replay_execution",
    "revoke_lease",
    "read_execution_state",
    "read_execution_info",
    "get_execution_result",
    "budget_admin",
    "quota_admin",
    "rotate_waitpoint_hmac_secret_all",
    "seed_waitpoint_hmac_secret",
    "list_pending_waitpoints",
    "cancel_flow_header",
    "cancel_flow_wait_timeout",
    "cancel_flow_wait_indefinite",
    "ack_cancel_member",
    "claim_for_worker",
    "issue_reclaim_grant",
    "prepare",
    "subscribe_lease_history",
    "subscribe_completion",
    "subscribe_signal_delivery",
    "subscribe_instance_tags",
    "stream_durable_summary",
    "stream_best_effort_live",
    "register_worker",
    "heartbeat_worker",
    "mark_worker_dead",
    "list_expired_leases",
    "list_workers",
    "release_admission",
    "read_quota_policy_limits",
    "block_execution_for_admission",
    "read_budget_usage_and_limits",
)


_OFFERED_BY = {
    "budget_admin": "create_budget",
    "quota_admin": "create_quota_policy",
    "cancel_flow_wait_timeout": "cancel_flow",
    "cancel_flow_wait_indefinite": "cancel_flow",
    "stream_durable_summary": "append_frame",
    "stream_best_effort_live": "append_frame",
}


_OFFERED_NOWHERE = {"subscribe_instance_tags"}


class Engine(LongPoll):
    """Load, decide, commit, for every operation; the store is the only thing that differs."""

    def __init__(
        self, store: Store, settings: Settings | None = None, *, seed: int | None = None
    ) -> None:
        super().__init__(store, settings, seed=seed)
        self._closed = False

    @property
    def backend_label(self) -> str:
        return self.store.label

    @property
    def durability(self) -> str:
        return self.store.durability

    async def ping(self) -> None:
        """Raises when the store cannot be reached."""
        await self.read_lane("default")

    async def server_time_ms(self) -> int:
        return await self.store.now_ms()

    async def prepare(self) -> str | None:
        """Start-up work: what was applied, or None when there was nothing to do."""
        return await self.store.prepare()

    def capabilities(self) -> Capabilities:
        """A flag is true exactly when the operation works here."""
        identity = {"family": self.store.label, "version": _version(), "rfc017_stage": "unknown"}
        offered = {
            flag: callable(getattr(self, _OFFERED_BY.get(flag, flag), None)) for flag in FLAGS
        }
        return Capabilities(identity, {**offered, **dict.fromkeys(_OFFERED_NOWHERE, False)})

    async def shutdown_prepare(self, grace_s: float = 5.0) -> None:
        """Stops background work and waits for what is under way, at most this long. Never raises."""

    async def close(self) -> None:
        """Once; a second call does nothing."""
        if not self._closed:
            self._closed = True
            await self._let_go()
            await self.finish()
            await self.store.close()

    async def finish(self) -> None:
        """Waits for what goes on behind answered calls; the store stays open."""
        await self._admissions.finish()
        await self._cascade.finish()
        await self._meter.finish()
        await self._pens.finish()
        await self._watch.stop()

    async def _let_go(self) -> None:
        await self.shutdown_prepare()

    async def __aenter__(self) -> Engine:
        await self.prepare()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _version() -> dict[str, int]:
    from importlib.metadata import (  # a tenth of the time that importing all of this takes
        PackageNotFoundError,
        version,
    )

    try:
        numbers = version("flowfabric").split(".")
    except PackageNotFoundError:
        numbers = []
    parts = [int(n) if n.isdigit() else 0 for n in [*numbers, "0", "0", "0"][:3]]
    return dict(zip(("major", "minor", "patch"), parts, strict=True))
