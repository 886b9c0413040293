"""The conditions of a filter, checked again on the rows that are about to change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flowfabric.engine.executions import search_filter
from flowfabric.model.execution import Execution
from flowfabric.model.search import ExecutionFilter
from flowfabric.store.port import AnyMatch, Match, alternatives

_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda held, value: bool(held == value),
    "<": lambda held, value: bool(held < value),
    "<=": lambda held, value: bool(held <= value),
    ">": lambda held, value: bool(held > value),
    ">=": lambda held, value: bool(held >= value),
    "in": lambda held, value: held in value,
    "starts": lambda held, value: str(held).startswith(value),
    "contains": lambda held, value: value in str(held),
}


class Recheck:
    """Whether an execution still matches. Its flow and its parent never change."""

    def __init__(self, where: ExecutionFilter, also: Iterable[Match]) -> None:
        self._matches = (*search_filter.matches_of(where), *also)
        self._error = where.error

    def holds(self, execution: Execution) -> bool:
        return all(_holds(match, execution) for match in self._matches) and (
            self._error is None
            or search_filter.is_error(
                execution.failure_reason, execution.last_failure_message, self._error
            )
        )


def _holds(match: Match | AnyMatch, execution: Execution) -> bool:
    return any(_is_met(each, execution) for each in alternatives(match))


def _is_met(match: Match, execution: Execution) -> bool:
    held = getattr(execution, match.column)
    return held is not None and _TESTS[match.op](held, match.value)
