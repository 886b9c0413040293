"""Which stories run in `make test`."""

from __future__ import annotations

import pytest

from .stories import Order


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A fault in a story on Postgres takes seconds: one story runs, the others run nightly."""
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        if params.get("faults") and params["engine"] == "postgres" and params["kind"] is not Order:
            item.add_marker(pytest.mark.nightly)
