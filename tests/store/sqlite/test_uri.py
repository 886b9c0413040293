"""What a path, a URI or `:memory:` means."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from flowfabric.errors import ConfigError
from flowfabric.store.sqlite import uri as target_module
from flowfabric.store.sqlite.uri import SHARED_MEMORY, check_version, is_memory, parse_target

CLASSIFIED = {
    ":memory:": True,
    "file::memory:": True,
    "file::memory:?cache=shared": True,
    "file:foo?mode=memory": True,
    "file:foo?mode=memory&cache=shared": True,
    "file:foo?cache=shared&mode=memory": True,
    "file:foo?mode=memory#part": True,
    "file:my_mode=memory_db.sqlite": False,
    "file:foo?mode=memory_extra": False,
    "file:foo?xmode=memory": False,
    "file:x?cache=shared": False,
    "file:x#?mode=memory_no": False,
    "file:x?cache=shared#&mode=memory": False,
    "/tmp/foo.db": False,
    "foo.db": False,
    "mode=memory": False,
    "foo?mode=memory": False,
    ":memory:x": False,
}


@pytest.mark.parametrize(("text", "expected"), CLASSIFIED.items())
def test_in_memory_or_a_file(text: str, expected: bool) -> None:
    assert is_memory(text) is expected
    assert parse_target(text).in_memory is expected


@pytest.mark.parametrize("text", [":memory:", "file::memory:", "file::memory:?cache=shared"])
def test_bare_memory_is_one_shared_database(text: str) -> None:
    assert (parse_target(text).uri, parse_target(text).key) == (SHARED_MEMORY, SHARED_MEMORY)


@pytest.mark.parametrize("text", [t for t, memory in CLASSIFIED.items() if memory])
def test_every_connection_to_a_memory_target_sees_the_same_rows(text: str) -> None:
    uri = parse_target(text).uri
    first, second = sqlite3.connect(uri, uri=True), sqlite3.connect(uri, uri=True)
    try:
        first.execute("CREATE TABLE seen (x)")
        assert second.execute("SELECT count(*) FROM seen").fetchone() == (0,)
    finally:
        first.close()
        second.close()


def test_a_memory_name_is_the_same_with_and_without_the_shared_cache_spelled_out() -> None:
    assert (
        parse_target("file:a?mode=memory").key
        == parse_target("file:a?mode=memory&cache=shared").key
    )
    assert parse_target("file:a?mode=memory").key != parse_target("file:b?mode=memory").key


def test_a_file_is_known_by_its_canonical_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.db").touch()
    (tmp_path / "link.db").symlink_to(tmp_path / "a.db")
    spellings = [
        "a.db",
        "./a.db",
        "sub/../a.db",
        "link.db",
        str(tmp_path / "a.db"),
        "file:a.db",
        f"file:{tmp_path}/a.db?cache=private",
    ]
    assert {parse_target(text).key for text in spellings} == {str((tmp_path / "a.db").resolve())}


@pytest.mark.parametrize("spelled", ["file://{}", "file://localhost{}", "file:{}"])
def test_a_uri_and_a_path_to_one_file_are_one_target(tmp_path: Path, spelled: str) -> None:
    path = tmp_path / "with space.db"
    path.touch()
    uri = spelled.format(str(path).replace(" ", "%20"))
    assert parse_target(uri).key == parse_target(str(path)).key


def test_a_missing_file_is_known_by_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_target("new.db").key == os.path.join(os.getcwd(), "new.db")


@pytest.mark.parametrize(
    "name", ["plain.db", "a b.db", "a?b.db", "a#b.db", "100%25.db", "a&mode=memory.db", "ünï.db"]
)
def test_a_path_names_exactly_that_file(tmp_path: Path, name: str) -> None:
    parsed = parse_target(str(tmp_path / name))
    sqlite3.connect(parsed.uri, uri=True).execute("CREATE TABLE t (x)").connection.close()
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert not parsed.in_memory


@pytest.mark.parametrize("bad", ["", "a\0b", "x" * 5_000, None, 5, b"a.db"])
def test_an_invalid_target_is_refused(bad: object) -> None:
    with pytest.raises(ConfigError, match="sqlite target"):
        parse_target(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "fine"),
    [((3, 34, 1), False), ((3, 7, 17), False), (target_module.MINIMUM_SQLITE, True)],
)
def test_an_old_sqlite_is_refused_at_boot(
    monkeypatch: pytest.MonkeyPatch, found: tuple[int, int, int], fine: bool
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", found)
    if fine:
        check_version()
        return
    with pytest.raises(ConfigError, match="too old"):
        check_version()


def test_the_version_floor_is_checked_before_a_file_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from flowfabric.store.sqlite.registry import open_store

    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 0))
    with pytest.raises(ConfigError, match="too old"):
        open_store(str(tmp_path / "ff.db"))
    assert list(tmp_path.iterdir()) == []
