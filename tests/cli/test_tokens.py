"""`flowfabric tokens`, on a database and over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flowfabric.codec.api_token import is_token
from flowfabric.testing import ManualClock
from tests.cli.commands import flowfabric
from tests.conftest import make_engine


@pytest.fixture
def db(tmp_path: Path) -> str:
    make_engine("sqlite-file", ManualClock(), tmp_path)
    return f"sqlite:///{tmp_path / 'ff.db'}"


def created(db: str, name: str, *more: str) -> dict[str, object]:
    done = flowfabric("tokens", "create", name, "--role", "read", "--json", *more, FF_URL=db)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def listed(db: str, *more: str) -> list[dict[str, object]]:
    done = flowfabric("tokens", "list", "--json", *more, FF_URL=db)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout)["tokens"]
    return found


def test_the_text_is_printed_once(db: str) -> None:
    done = flowfabric(
        *("tokens", "create", "ci", "--role", "submit", "--role", "work"),
        *("--namespace", "acme", "--lane", "mail", "--expires", "90d"),
        FF_URL=db,
    )
    text = done.stdout.splitlines()[0]
    assert (done.returncode, is_token(text)) == (0, True)
    assert "cannot be shown again" in done.stdout
    (token,) = listed(db)
    assert (token["roles"], token["namespace"], token["lanes"]) == (
        ["submit", "work"],
        "acme",
        ["mail"],
    )
    shown = flowfabric("tokens", "list", FF_URL=db, COLUMNS="200").stdout
    assert text not in shown
    assert shown.split()[:3] == ["NAME", "ID", "ROLES"]
    assert text.encode() not in Path(db.removeprefix("sqlite:///")).read_bytes()


def test_rotated_and_revoked_by_name_id_and_prefix(db: str) -> None:
    first, second = created(db, "a"), created(db, "b")
    rotated = flowfabric("tokens", "rotate", "a", "--grace", "10m", FF_URL=db)
    assert rotated.returncode == 0
    assert is_token(rotated.stdout.splitlines()[0])
    assert first["token"] not in rotated.stdout
    assert "overlap until" in flowfabric("tokens", "list", FF_URL=db, COLUMNS="200").stdout
    for name in (str(first["token_id"]), "b"):
        assert flowfabric("tokens", "revoke", name, FF_URL=db).returncode == 0
    assert listed(db) == []
    assert {each["token_id"] for each in listed(db, "--all")} == {
        first["token_id"],
        second["token_id"],
    }


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (("revoke", "nothing"), 3, "nothing: no such token"),
        (("rotate", "a", "--grace", "soon"), 2, "--grace: "),
        (("rotate", "a", "--grace", "400d"), 2, "grace_ms: "),
        (("create", "a", "--role", "read"), 2, "name: a name that no other token has"),
        (("create", "b", "--role", "root"), 2, "--role"),
        (("create", "b"), 2, "--role"),
        (("create", "b", "--role", "read", "--expires", "0s"), 2, "expires_in_ms: "),
    ],
)
def test_refusals_are_one_line_and_change_nothing(
    db: str, args: tuple[str, ...], code: int, text: str
) -> None:
    created(db, "a")
    before = listed(db, "--all")
    done = flowfabric("tokens", *args, FF_URL=db)
    assert (done.returncode, done.stdout) == (code, "")
    assert text in done.stderr
    assert done.stderr.count("error: ") == 1
    assert listed(db, "--all") == before


def test_several_tokens_of_one_name_are_told_apart_by_id(db: str) -> None:
    """Revoked ones do not count while a live one has the name."""
    old = created(db, "a")
    assert flowfabric("tokens", "revoke", "a", FF_URL=db).returncode == 0
    new = created(db, "a")
    assert flowfabric("tokens", "rotate", "a", FF_URL=db).returncode == 0
    assert flowfabric("tokens", "revoke", "a", FF_URL=db).returncode == 0
    done = flowfabric("tokens", "revoke", "a", FF_URL=db)
    assert done.returncode == 3
    assert str(old["token_id"]) in done.stderr
    assert str(new["token_id"]) in done.stderr
