"""A copy takes one cell, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowfabric.connect.transfer import copy_database
from flowfabric.errors import ConfigError
from tests.cells.helpers import create, new_url, opened


async def test_a_copy_does_not_leave_namespaces_behind(tmp_path: Path) -> None:
    source = new_url()
    async with opened(source) as engine:
        await create(engine, "ann")
    with pytest.raises(ConfigError, match="'ann' has a cell of its own"):
        await copy_database(source, f"sqlite:///{tmp_path}/copy.db", lambda _: None)
