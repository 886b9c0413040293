"""What one submission may say beside the arguments of the task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.errors import ValidationError, ValidationKind
from flowfabric.ids import tag_key_is_valid
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.sdk.durations import Span, millis

if TYPE_CHECKING:
    from flowfabric.engine.protocol import EngineProtocol


def checked_tags(tags: Mapping[str, str]) -> Mapping[str, str]:
    """As an engine takes them later: a tag that could not be changed any more is refused before it is set."""
    for key in tags:
        if not tag_key_is_valid(key):
            raise ValidationError(
                ValidationKind.INVALID_TAG_KEY,
                f"tags: {key!r:.80}: owner.name in lower case is accepted",
            )
    return tags


class Options(Struct, frozen=True):
    """What one submission may say beside the arguments."""

    key: str | None = None
    key_ttl: Span | None = None
    delay: Span | None = None
    priority: int | None = None
    tags: Mapping[str, str] = {}
    deadline: Span | None = None
    lane: str | None = None
    requires: Iterable[str] = ()
    connection: Any = None

    def dated(self, made: CreateExecutionArgs, now_ms: int) -> CreateExecutionArgs:
        """With its delay and deadline counted from this time."""
        if self.delay is None and self.deadline is None:
            return made
        return replace(
            made,
            delay_until=None if self.delay is None else now_ms + millis(self.delay, "delay"),
            execution_deadline_at=None
            if self.deadline is None
            else now_ms + millis(self.deadline, "deadline"),
        )

    async def dated_by(
        self, engine: EngineProtocol, made: CreateExecutionArgs
    ) -> CreateExecutionArgs:
        """By the clock that will tell when it is due, where that is at hand: the store's."""
        store = (
            None if self.delay is None and self.deadline is None else getattr(engine, "store", None)
        )
        return made if store is None else self.dated(made, await store.now_ms())
