"""Searches over the runs of an app."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Unpack

from flowfabric.sdk.run import Run
from flowfabric.sdk.run_filter import RunFilter, filter_of
from flowfabric.sdk.run_info import RunInfo, RunPage

if TYPE_CHECKING:
    from flowfabric.model.search import ExecutionSummary
    from flowfabric.sdk.app import App

DEFAULT_PAGE = 50
PAGE = 200


class Runs:
    """Lists runs: `await app.runs(state="failed")`, or all pages with `app.runs.all(...)`."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(
        self,
        *,
        limit: int = DEFAULT_PAGE,
        cursor: str | None = None,
        oldest_first: bool = False,
        **where: Unpack[RunFilter],
    ) -> RunPage[RunInfo]:
        """One page of the runs that match, the newest first; at most 1,000.

        `next_cursor` of a page is the `cursor` of the next one; it is None after the last page. A
        page may hold fewer runs than `limit` and have a cursor all the same.

        The conditions, of which all must hold, are `state`, `task`, `lane`, `tag`, `namespace`,
        `parent`, `flow`, `worker`, `created`, `ended`, `error` and `key`; `RunFilter` describes
        them.
        """
        wanted = await filter_of(self._app, "runs", where)
        engine = await self._app.engine()
        found = await engine.find_executions(wanted, limit, cursor, oldest_first=oldest_first)
        return RunPage(list(map(self._info, found.items)), found.next_cursor)

    async def all(
        self, *, oldest_first: bool = False, page: int = PAGE, **where: Unpack[RunFilter]
    ) -> AsyncIterator[RunInfo]:
        """Every run that matches, read in pages of `page`: `async for info in app.runs.all(...)`.

        The conditions are those of `app.runs(...)`. Spans count from the first page.
        """
        wanted = await filter_of(self._app, "runs.all", where)
        engine, cursor = await self._app.engine(), None
        while True:
            found = await engine.find_executions(wanted, page, cursor, oldest_first=oldest_first)
            for each in found.items:
                yield self._info(each)
            cursor = found.next_cursor
            if cursor is None:
                return

    def _info(self, found: ExecutionSummary) -> RunInfo:
        """The handle decodes the result if the app declares the task."""
        return RunInfo.read(Run(self._app, found.id, self._app.tasks.get(found.task)), found)
