"""Searches over the runs of an app, for blocking code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Unpack
from uuid import UUID

from flowfabric.sdk.run_filter import PlainFilter
from flowfabric.sdk.run_info import RunPage
from flowfabric.sdk.runs import DEFAULT_PAGE, PAGE
from flowfabric.sdk.runs import Runs as AsyncRuns
from flowfabric.sdk.sync_context import documented
from flowfabric.sdk.task import AnyTask
from flowfabric.sync.background import background
from flowfabric.sync.bridge import Wrapper
from flowfabric.sync.runs import Flow, Run, RunInfo, Task


class RunFilter(PlainFilter, total=False):
    """The conditions of `flowfabric.sdk.run_filter.RunFilter`, with the objects of this package."""

    task: Task[..., Any] | AnyTask | str
    parent: Run[Any] | str
    flow: Flow | UUID | str


class Runs(Wrapper[AsyncRuns]):
    """Lists runs: `app.runs(state="failed")`, or all pages with `app.runs.all(...)`."""

    @documented(AsyncRuns.__call__)
    def __call__(
        self,
        *,
        limit: int = DEFAULT_PAGE,
        cursor: str | None = None,
        oldest_first: bool = False,
        **where: Unpack[RunFilter],
    ) -> RunPage[RunInfo]:
        given: Any = _unwrapped(where)
        page = background.call(
            self.inner(limit=limit, cursor=cursor, oldest_first=oldest_first, **given)
        )
        return RunPage(list(map(RunInfo.read, page.items)), page.next_cursor)

    @documented(AsyncRuns.all)
    def all(
        self, *, oldest_first: bool = False, page: int = PAGE, **where: Unpack[RunFilter]
    ) -> Iterator[RunInfo]:
        given: Any = _unwrapped(where)
        found = self.inner.all(oldest_first=oldest_first, page=page, **given)
        return map(RunInfo.read, background.iterate(found))


def _unwrapped(where: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.inner if isinstance(value, Wrapper) else value for name, value in where.items()
    }
