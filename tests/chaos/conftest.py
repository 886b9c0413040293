"""The sound run, made once for all tests of the checker."""

from __future__ import annotations

import asyncio

import pytest

from .logs import History
from .sound import Sound, Tables


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tables, History]:
    return asyncio.run(Sound(tmp_path_factory.mktemp("sound")).run())
