"""Updates stored limits to the declared ones, and logs the difference."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import asdict

from flowfabric.errors import ConfigError
from flowfabric.model.budget import BudgetUnchanged, BudgetUpdated
from flowfabric.model.quota import QuotaPolicyUnchanged, QuotaPolicyUpdated

T = TypeVar("T", bound=Struct)
log = logging.getLogger("flowfabric.limits")

Answer = BudgetUpdated | BudgetUnchanged | QuotaPolicyUpdated | QuotaPolicyUnchanged


def update_args(kind: type[T], wanted: Struct, by: str) -> T:
    """The arguments of an update, from those of the creation."""
    names = (name for name in kind.__struct_fields__ if name != "by")
    return kind(**{name: getattr(wanted, name) for name in names}, by=by)


async def update_limits(
    update: Awaitable[Answer], kind: str, name: str, is_same: Callable[[], Awaitable[bool]]
) -> None:
    """A token may be allowed to declare limits but not to change them; the stored ones stay."""
    fields = {"limit_kind": kind, "limit_name": name}
    try:
        answer = await update
    except ConfigError as error:
        if not await is_same():
            log.warning(
                "the declared limits differ from the stored ones, which stay",
                extra={**fields, "reason": str(error)},
            )
        return
    if isinstance(answer, BudgetUpdated | QuotaPolicyUpdated):
        values = {"old_limits": asdict(answer.old), "new_limits": asdict(answer.new)}
        log.warning(
            "the declared limits differ from the stored ones, and replace them",
            extra={**fields, **values},
        )
