"""Which executions an action applies to."""

from __future__ import annotations

from flowfabric.errors import EngineError, invalid
from flowfabric.model.bulk import BulkAction, BulkArgs
from flowfabric.model.state import PublicState

_PARKED = (
    PublicState.WAITING,
    PublicState.DELAYED,
    PublicState.RATE_LIMITED,
    PublicState.WAITING_CHILDREN,
    PublicState.SUSPENDED,
)
_FAILED = (PublicState.FAILED, PublicState.EXPIRED)
_ENDED = (*_FAILED, PublicState.COMPLETED, PublicState.CANCELLED, PublicState.SKIPPED)
APPLIES_TO: dict[BulkAction, tuple[PublicState, ...]] = {
    BulkAction.CANCEL: (*_PARKED, PublicState.ACTIVE),
    BulkAction.RETRY: _FAILED,
    BulkAction.REPLAY: _ENDED,
    BulkAction.PRIORITY: (PublicState.WAITING,),
    BulkAction.MOVE: _PARKED,
    BulkAction.RELEASE: (PublicState.DELAYED, PublicState.WAITING),
    BulkAction.DELETE: _ENDED,
    BulkAction.ERASE: _ENDED,
}
_NEEDS = {BulkAction.PRIORITY: "priority", BulkAction.MOVE: "lane"}


def states_of(args: BulkArgs) -> tuple[PublicState, ...]:
    """The states of the filter, narrowed to those that the action applies to."""
    applies = APPLIES_TO[args.action]
    return tuple(each for each in args.where.state if each in applies) or applies


def check(args: BulkArgs) -> EngineError | None:
    """The error for a filter or a value that does not go with the action."""
    applies = APPLIES_TO[args.action]
    if args.where.state and not set(args.where.state) & set(applies):
        accepted = f"one or more of {', '.join(applies)} for the action {args.action}"
        return invalid("where.state", accepted, ", ".join(args.where.state))
    for action, field in _NEEDS.items():
        given = getattr(args, field) is not None
        if given and args.action is not action:
            return invalid(field, f"only with the action {action}", getattr(args, field))
        if not given and args.action is action:
            return invalid(field, f"a value, because the action is {action}")
    return None
