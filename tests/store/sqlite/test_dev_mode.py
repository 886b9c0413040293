"""Opening SQLite is a statement: without it nothing is opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flowfabric.connect import SqliteBackend, connect
from flowfabric.errors import ConfigError, RequiresDevMode

DENIED = [None, "", "0", "true", "yes", " 1", "1 ", "11"]


def _set(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    if value is None:
        monkeypatch.delenv("FF_DEV_MODE", raising=False)
    else:
        monkeypatch.setenv("FF_DEV_MODE", value)


@pytest.mark.parametrize("value", DENIED)
async def test_anything_but_1_is_refused_and_no_file_appears(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str | None
) -> None:
    _set(monkeypatch, value)
    path = tmp_path / "ff.db"
    with pytest.raises(RequiresDevMode):
        await SqliteBackend.new(str(path))
    with pytest.raises(RequiresDevMode):
        await SqliteBackend.new_with_tuning(str(path), pool_size=2)
    with pytest.raises(RequiresDevMode):
        await connect(f"sqlite:///{path}")
    assert os.listdir(tmp_path) == []


async def test_the_refusal_names_three_solutions(monkeypatch: pytest.MonkeyPatch) -> None:
    _set(monkeypatch, None)
    with pytest.raises(RequiresDevMode) as caught:
        await SqliteBackend.new(":memory:")
    text = str(caught.value)
    assert text.startswith("sqlite requires FF_DEV_MODE=1: ")
    for way in ("Set FF_DEV_MODE=1", "dev=True", "flowfabric demo"):
        assert way in text
    assert caught.value.backend_kind == "protocol"
    assert isinstance(caught.value, ConfigError)


async def test_the_guard_comes_before_a_live_store_of_the_same_target(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _set(monkeypatch, None)
    path = str(tmp_path / "ff.db")
    opened = await SqliteBackend.new(path, dev=True)
    with pytest.raises(RequiresDevMode):
        await SqliteBackend.new(path)
    await opened.close()


@pytest.mark.parametrize(("value", "dev"), [("1", False), ("1", True), (None, True), ("0", True)])
async def test_the_environment_or_the_argument_opens(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str | None, dev: bool
) -> None:
    _set(monkeypatch, value)
    backend = await SqliteBackend.new(str(tmp_path / "ff.db"), dev=dev)
    assert backend.store.label == "sqlite"
    await backend.close()


@pytest.mark.parametrize(
    ("tuning", "field"),
    [
        ({"pool_size": 0}, "pool_size"),
        ({"pool_size": 65}, "pool_size"),
        ({"pool_size": "4"}, "pool_size"),
        ({"synchronous": "OFF"}, "synchronous"),
        ({"poolsize": 4}, "poolsize"),
    ],
)
async def test_a_wrong_setting_is_refused_by_name(
    tmp_path: Path, tuning: dict[str, object], field: str
) -> None:
    with pytest.raises(ConfigError, match=field):
        await SqliteBackend.new(str(tmp_path / "ff.db"), dev=True, **tuning)
    assert os.listdir(tmp_path) == []
