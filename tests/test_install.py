"""What a bare import of the package does not load, and does not do."""

from __future__ import annotations

import subprocess
import sys

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


def said_by(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.split()


def test_the_import_loads_nothing_that_only_some_need() -> None:
    loaded = said_by(LOADED)
    assert "flowfabric.sdk.worker" in loaded and "sqlite3" in loaded
    assert [name for name in ELSEWHERE if name in loaded] == []


def test_forms_are_taken_apart_when_they_are_used() -> None:
    forms, taken_apart = map(int, said_by(UNASKED))
    assert forms > 100 and taken_apart == 0
