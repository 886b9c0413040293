"""What a server says of its store when it boots."""

from __future__ import annotations

import logging

import pytest

from flowfabric.server.serve import FEW_LOCKS, opened, warn_of_few_locks
from tests.postgres import database
from tests.remote.served import settings


async def test_a_postgres_with_few_locks_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    async with opened(settings(FF_BACKEND="postgres", FF_POSTGRES_URL=database("locks"))) as engine:
        setting = await engine.lock_setting()  # type: ignore[attr-defined]
    said = [each for each in caplog.records if "max_locks_per_transaction" in each.getMessage()]
    assert [(each.levelno, each.value) for each in said] == ([(logging.WARNING, setting)] if setting < FEW_LOCKS else [])  # type: ignore[attr-defined]


@pytest.mark.parametrize(("setting", "is_told"), [(64, True), (255, True), (256, False), (512, False)])
def test_how_many_are_few(setting: int, is_told: bool, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_few_locks(setting)
    assert (f"max_locks_per_transaction is {setting}; 512 is advised" in caplog.text) is is_told
