"""What an app says when the limits it declares are not those that are stored."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from msgspec.structs import asdict

from flowfabric.errors import ConfigError
from flowfabric.model.budget import BudgetUnchanged, BudgetUpdated
from flowfabric.model.quota import QuotaPolicyUnchanged, QuotaPolicyUpdated

log = logging.getLogger("flowfabric.limits")

Answer = BudgetUpdated | BudgetUnchanged | QuotaPolicyUpdated | QuotaPolicyUnchanged


async def changed(
    update: Awaitable[Answer], kind: str, name: str, is_same: Callable[[], Awaitable[bool]]
) -> None:
    """A token that may declare limits need not be one that may change them: the stored ones stay then, and that is told."""
    said = {"limit_kind": kind, "limit_name": name}
    try:
        answer = await update
    except ConfigError as error:
        if not await is_same():
            log.warning(
                "the declared limits differ from the stored ones, which stay",
                extra={**said, "reason": str(error)},
            )
        return
    if isinstance(answer, BudgetUpdated | QuotaPolicyUpdated):
        more = {"old_limits": asdict(answer.old), "new_limits": asdict(answer.new)}
        log.warning(
            "the declared limits differ from the stored ones, and replace them",
            extra={**said, **more},
        )
