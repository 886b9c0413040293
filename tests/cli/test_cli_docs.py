"""docs/cli.md has every command, and every command in the documentation exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from docs import commands as reference

from flowfabric.cli.exits import Exit
from tests.cli.commands import flowfabric

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "operating").glob("*.md")),
]
COMMANDS = dict(reference.commands())
PAGE = reference.PAGE.read_text(encoding="utf-8")


def test_the_reference_is_up_to_date() -> None:
    assert reference.page() == PAGE, "run `make docs`"
    assert PAGE.count("\n### `flowfabric ") == len(COMMANDS)


def test_every_exit_code_is_in_the_table() -> None:
    table = PAGE.partition("## Exit codes")[2].partition("## ")[0]
    assert re.findall(r"^\| (\d+) \|", table, re.MULTILINE) == [str(int(code)) for code in Exit]


@pytest.mark.parametrize("path", ["list", "flow show", "cancel"])
def test_the_help_of_a_command_has_its_options(path: str) -> None:
    shown = flowfabric(*path.split(), "--help").stdout
    section = PAGE.partition(f"### `flowfabric {path}")[2].partition("\n### ")[0]
    options = re.findall(r"`(--[a-z-]+)`", section)
    assert options and all(option in shown for option in options)


def lines_of(page: Path) -> list[str]:
    """The command lines in the code blocks of a page."""
    blocks = re.findall(r"```(?:console|sh|bash)\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    found = re.findall(r"^(?:\$ )?(?:.*&& )?((?:flowfabric|ff) [^\n]*)$", "\n".join(blocks), re.M)
    return [re.split(r" [<>&|] ?", line.partition(" # ")[0])[0].rstrip(" &") for line in found]


def unknown_part(line: str) -> str | None:
    """The first word of a command line that its command does not have."""
    words = [word for word in shlex.split(line)[1:] if word != "..."]
    path = next((" ".join(words[:n]) for n in (2, 1) if " ".join(words[:n]) in COMMANDS), None)
    if path is None:
        return None if words[0].startswith("--") else " ".join(words)
    names = _options(COMMANDS[path])
    given = (word.partition("=")[0] for word in words if word.startswith("-") and word != "-")
    return next((word for word in given if word not in names), None)


def _options(command: Any) -> set[str]:
    shown = [name for each in command.params for name in (*each.opts, *each.secondary_opts)]
    return {"-h", "--help", *shown}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_in_the_pages_exist(page: Path) -> None:
    assert {line: unknown_part(line) for line in lines_of(page) if unknown_part(line)} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_shows_a_form_that_is_deprecated(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page == reference.PAGE:
        return
    assert "FLOWFABRIC_DB" not in text and "flowfabric[cli]" not in text
    old = r"flowfabric (?:verify|migrate|approvals|flow list) (?!--)[^\s`-][^\n`]*(?:db|URL|://)"
    assert re.findall(old, text) == []
    assert not re.findall(r"flowfabric (?:worker|dev) [^\n`]*--url", text)
