"""Searches over the runs of an app, for blocking code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Unpack
from uuid import UUID

from flowfabric.sdk.bulk import Action
from flowfabric.sdk.bulk import Bulk as AsyncBulk
from flowfabric.sdk.bulk import BulkRun as AsyncBulkRun
from flowfabric.sdk.run_filter import PlainFilter
from flowfabric.sdk.run_info import RunPage
from flowfabric.sdk.runs import DEFAULT_PAGE, PAGE
from flowfabric.sdk.runs import Runs as AsyncRuns
from flowfabric.sdk.sync_context import documented
from flowfabric.sdk.task import AnyTask
from flowfabric.sync.background import background
from flowfabric.sync.bridge import Wrapper, blocking, wrapped
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


class BulkRun(Wrapper[AsyncBulkRun]):
    """A handle to a bulk job, as that of `flowfabric.App.bulk`, whose calls block."""

    @property
    def id(self) -> UUID:
        """The id of the job."""
        return self.inner.id

    progress = blocking(AsyncBulkRun.progress)
    wait = blocking(AsyncBulkRun.wait)
    stop = blocking(AsyncBulkRun.stop)


class Bulk(Wrapper[AsyncBulk]):
    """Starts bulk jobs: `job = app.bulk("cancel", task="mail", state="waiting")`."""

    @documented(AsyncBulk.__call__)
    def __call__(
        self,
        action: Action,
        *,
        to: str | int | None = None,
        reason: str = "",
        dry_run: bool = False,
        **where: Unpack[RunFilter],
    ) -> BulkRun:
        given: Any = _unwrapped(where)
        job = self.inner(action, to=to, reason=reason, dry_run=dry_run, **given)
        return BulkRun(background.call(job))

    job = wrapped(AsyncBulk.job, BulkRun)


def _unwrapped(where: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.inner if isinstance(value, Wrapper) else value for name, value in where.items()
    }
