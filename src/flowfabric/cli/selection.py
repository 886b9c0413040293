"""The executions that an action is about: named by ids, or all that match the filters."""

from __future__ import annotations

import sys
from typing import Annotated, get_type_hints

import typer
from msgspec import Struct

from flowfabric.cli.filters import Filters
from flowfabric.cli.user import current_user
from flowfabric.errors import ConfigError


class Selection(Struct, frozen=True, kw_only=True):
    """Ids or filters, and how to go about it."""

    ids: tuple[str, ...] = ()
    filters: Filters
    yes: bool = False
    dry_run: bool = False
    reason: str = ""
    by: str = ""

    def check(self, command: str) -> None:
        given = self.filters.given
        if self.ids and given:
            names = ", ".join(f"--{name}" for name in given)
            raise ConfigError(f"ID and {names}: name executions by their ids or by filters")
        if not self.ids and not given:
            raise ConfigError(
                f"ID: expected ids, or filters such as in `flowfabric {command} --state failed`"
            )

        if given and not (self.yes or self.dry_run or can_ask()):
            raise ConfigError(
                f"--yes: needed for {command} by filters without a terminal to ask on; "
                "--dry-run counts"
            )

    @property
    def who(self) -> str:
        """`--by`, else the user of this process."""
        return self.by or current_user()

    def confirm(self, question: str) -> None:
        """Asks, unless `--yes` was given. A refusal ends the command."""
        if not confirm(question, yes=self.yes):
            raise typer.Abort


def confirm(question: str, *, yes: bool) -> bool:
    """Asks, unless `yes`."""
    if yes:
        return True
    if not can_ask():
        raise ConfigError(f"--yes: needed without a terminal to ask on: {question}")
    return typer.confirm(question, err=True)


def can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


class SelectionOptions(Struct):
    """The options beside the filters."""

    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Uuids, or the first 8 or more digits of them."),
    ]
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and change nothing.")]
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Recorded in the history.")
    ]
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="WHO", help="Who asks; default: the user of this process."),
    ]


SELECTION_OPTIONS = get_type_hints(SelectionOptions, include_extras=True)
