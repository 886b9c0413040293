"""A copy takes one cell, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowfabric import connect
from flowfabric.connect.transfer import CopyRefused, copy_database
from flowfabric.errors import ConfigError
from flowfabric.model.search import ExecutionFilter
from tests.cells.helpers import create, new_url, opened


async def test_a_copy_does_not_leave_namespaces_behind(tmp_path: Path) -> None:
    source = new_url()
    async with opened(source) as engine:
        await create(engine, "ann")
    with pytest.raises(ConfigError, match="'ann' has a cell of its own"):
        await copy_database(source, f"sqlite:///{tmp_path}/copy.db", lambda _: None)


async def test_a_copy_into_valkey_refuses_namespaces_that_would_need_cells(tmp_path: Path) -> None:
    source, destination = f"sqlite:///{tmp_path}/source.db", new_url()
    async with await connect(source, dev=True, loops=False) as engine:
        await create(engine, "ann")
        await create(engine, "default")
    with pytest.raises(CopyRefused, match="namespaces ann, and on Valkey each is its own cell"):
        await copy_database(source, destination, lambda _: None)
    async with opened(destination) as engine:
        assert (await engine.find_executions(ExecutionFilter())).items == []
