"""Quotas, addressed by name."""

from __future__ import annotations

from uuid import UUID, uuid5

from msgspec import Struct

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError
from flowfabric.ids import lane_id
from flowfabric.ids import name as checked_name
from flowfabric.model.quota import (
    DEFAULT_WINDOW_S,
    MAX_LIMIT_VALUE,
    CreateQuotaPolicyArgs,
    QuotaLimits,
    QuotaPolicyCreated,
    UpdateQuotaPolicyArgs,
)
from flowfabric.sdk.changed_limits import update_args, update_limits
from flowfabric.sdk.durations import Span, millis

_NAMES = UUID("0b7e2c55-3f0c-5a41-8d0e-6a4f1c2d9b73")


def quota_id(namespace: str, name: str) -> UUID:
    """The id of a name follows from it: it is the same in every process."""
    return uuid5(_NAMES, f"{namespace}/{name}")


class Quota(Struct, frozen=True):
    """How many runs may start per span of time, and run at once. `App.quota` describes the fields.

    `Quota("openai", requests=60, per="1m", concurrent=4)`
    """

    name: str
    requests: int | None = None
    per: Span | None = None
    concurrent: int | None = None
    lane: str | None = None
    tag: str | None = None

    def checked(self, namespace: str) -> CreateQuotaPolicyArgs:
        """The arguments of the engine's operation. Raises ConfigError for invalid fields."""
        field = f"quota {checked_name(self.name, 'quota: name')}"
        if self.requests is None and self.concurrent is None:
            raise ConfigError(
                f'{field}: say at least one limit, like requests=60, per="1m" or concurrent=4'
            )
        if self.per is not None and self.requests is None:
            raise ConfigError(
                f"{field}: per: it is the time for so many requests; say requests=... as well"
            )
        if self.lane is not None:
            lane_id(self.lane, f"{field}: lane")
        if self.tag is not None:
            self._check_tag(field)
        return CreateQuotaPolicyArgs(
            quota_policy_id=quota_id(namespace, self.name),
            window_seconds=self._window_s(field),
            max_requests_per_window=_limit(self.requests, f"{field}: requests"),
            max_concurrent=_limit(self.concurrent, f"{field}: concurrent"),
            namespace=namespace,
        )

    def _window_s(self, field: str) -> int:
        if self.per is None:
            return DEFAULT_WINDOW_S
        found = millis(self.per, f"{field}: per")
        if found < 1_000 or found % 1_000:
            raise ConfigError(
                f'{field}: per: whole seconds, at least one, like "1s" or "1m"; '
                f"got {self.per!r:.80}"
            )
        return found // 1_000

    def _check_tag(self, field: str) -> None:
        key, equals, _ = self.tag.partition("=") if isinstance(self.tag, str) else ("", "", "")
        if not key or not equals:
            raise ConfigError(
                f'{field}: tag: "key=value", as tasks are tagged, like "app.customer=acme"; '
                f"got {self.tag!r:.80}"
            )

    async def make(self, engine: EngineProtocol, namespace: str, by: str) -> None:
        """Creates the quota, or gives the existing one these limits."""
        wanted = self.checked(namespace)
        if not isinstance(await engine.create_quota_policy(wanted), QuotaPolicyCreated):
            await self._update(engine, wanted, by)
        for scope, found in (("lane", self.lane), ("tag", self.tag)):
            if found is not None:
                await engine.attach_limit("quota", wanted.quota_policy_id, scope, found)

    async def _update(self, engine: EngineProtocol, wanted: CreateQuotaPolicyArgs, by: str) -> None:

        async def is_same() -> bool:
            found = await engine.read_quota_policy_limits(wanted.quota_policy_id)
            return found == QuotaLimits(
                wanted.max_requests_per_window,
                wanted.window_seconds,
                wanted.max_concurrent,
                wanted.jitter_ms,
            )

        await update_limits(
            engine.update_quota_policy(update_args(UpdateQuotaPolicyArgs, wanted, by)),
            "quota",
            self.name,
            is_same,
        )


def _limit(value: object, field: str) -> int:
    """To the engine 0 is no limit, but it reads like "none at all", so it is refused."""
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_LIMIT_VALUE:
        raise ConfigError(
            f"{field}: a whole number from 1; leave it out for no limit, pause the lane for none "
            f"at all; got {value!r:.80}"
        )
    return value
