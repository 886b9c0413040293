"""What comes with `pip install flowfabric`, and what a bare import of it does not load."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires

FEWER_THAN = 10
FEWER_WITH_COMMAND = 20
ELSEWHERE = (
    "asyncpg",
    "cronsim",
    "importlib.metadata",
    "psycopg",
    "pytest",
    "rich",
    "typer",
    "flowfabric.cli",
    "flowfabric.verify",
)
LOADED = """
import sys, flowfabric
print(*(name for name in sys.modules))
"""
UNASKED = """
import flowfabric, gc
from flowfabric.plan import Form
forms = [each for each in gc.get_objects() if type(each) is Form]
print(len(forms), sum("args" in vars(form) for form in forms))
"""


def installed_with(package: str) -> set[str]:
    """Itself and everything that comes with it, without extras; each marker counts as fulfilled,
    whatever the machine.
    """
    found: set[str] = set()
    wanted = [package]
    while wanted:
        name = re.sub(r"[-_.]+", "-", wanted.pop()).lower()
        if name in found:
            continue
        found.add(name)
        try:
            lines = requires(name) or []
        except (
            PackageNotFoundError
        ):  # for another machine: it is counted, what comes with it is not known here
            continue
        wanted += [
            re.split(r"[^\w.-]", line)[0] for line in lines if not re.search(r"\bextra\s*==", line)
        ]
    return found


def test_the_sqlite_path_takes_few_packages() -> None:
    """Beside those of the command, which a bare import does not load."""
    found = installed_with("flowfabric")
    of_command = installed_with("typer") | installed_with("rich")
    assert {"flowfabric", "msgspec", "cronsim"} <= found
    assert len(found - of_command) < FEWER_THAN, sorted(found)
    assert len(found) < FEWER_WITH_COMMAND, sorted(found)


def test_it_counts_what_comes_along() -> None:
    assert installed_with("rich") >= {"rich", "markdown-it-py", "mdurl"}


def said_by(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.split()


def test_the_import_loads_nothing_that_only_some_need() -> None:
    loaded = said_by(LOADED)
    assert "flowfabric.sdk.worker" in loaded and "sqlite3" in loaded
    assert [name for name in ELSEWHERE if name in loaded] == []


def test_forms_are_taken_apart_when_they_are_used() -> None:
    forms, taken_apart = map(int, said_by(UNASKED))
    assert forms > 100 and taken_apart == 0
