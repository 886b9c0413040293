"""The reference of the commands in cli.md, made from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from flowfabric.cli.app import app
from flowfabric.cli.filters import FILTER_OPTIONS

PAGE = Path(__file__).parent / "cli.md"
MARK = "<!-- Made by `make docs` from here on, from the commands in src/flowfabric/cli. -->\n"
STORE = {"db", "server_token"}
LEFT_OUT = {"help", "install_completion", "show_completion"}


def page() -> str:
    head, mark, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    assert mark, "cli.md has lost the line behind which the reference is"
    return head + mark + reference()


def reference() -> str:
    filters = _options(_by_name(dict(commands())["list"]), set(FILTER_OPTIONS))
    parts = ["", "### Filters", "", *filters]
    for path, command in commands():
        parts += ["", *_section(path, command)]
    return "\n".join(parts) + "\n"


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by its path, such as `flow show`."""
    found: Mapping[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, command in found.items():
        if hasattr(command, "commands"):
            for word, inner in command.commands.items():
                yield f"{name} {word}", inner
        else:
            yield name, command


def _section(path: str, command: Any) -> Iterator[str]:
    named = _by_name(command)
    shared = _shared(set(named))
    arguments = [p for p in named.values() if not _is_option(p) and not _is_hidden(p)]
    usage = " ".join(["flowfabric", path, *(_argument(each) for each in arguments)])
    yield f"### `{usage}`"
    yield ""
    yield " ".join((command.help or "").split())
    own = {
        name
        for name, each in named.items()
        if _is_option(each) and not _is_hidden(each) and name not in LEFT_OUT | _covered(shared)
    }
    if own or arguments:
        yield ""
        yield from _options(named, own | {each.name for each in arguments})
    if shared:
        yield ""
        yield f"Also {' and '.join(shared.values())}."


def _shared(names: set[str]) -> dict[str, str]:
    """Groups of options that are described once."""
    found = {}
    if set(FILTER_OPTIONS) <= names:
        found["filters"] = "the [filters](#filters)"
    if "db" in names and names >= STORE:
        found["store"] = "`--db` and `--token`"
    return found


def _covered(shared: Mapping[str, str]) -> set[str]:
    covered = set(FILTER_OPTIONS) if "filters" in shared else set()
    return covered | (STORE if "store" in shared else set())


def _by_name(command: Any) -> dict[str, Any]:
    return {each.name: each for each in command.params}


def _is_option(each: Any) -> bool:
    return each.param_type_name == "option"


def _is_hidden(each: Any) -> bool:
    return bool(getattr(each, "hidden", False))


def _argument(each: Any) -> str:
    name = each.metavar or each.name.upper()
    return name if each.required or name.startswith("[") else f"[{name}]"


def _options(named: Mapping[str, Any], wanted: Iterable[str]) -> Iterator[str]:
    yield "| option | meaning |"
    yield "|---|---|"
    chosen = set(wanted)
    for name, each in named.items():
        if name in chosen:
            yield f"| {_shown(each)} | {_meaning(each)} |"


def _shown(each: Any) -> str:
    if not _is_option(each):
        return f"`{_argument(each)}`"
    names = ", ".join(f"`{name}`" for name in [*each.opts, *each.secondary_opts])
    value = "" if each.is_flag else f" `{each.metavar or 'N'}`"
    return names + value


def _meaning(each: Any) -> str:
    text = (each.help or "").replace("|", "\\|")
    has_default = _is_option(each) and not each.is_flag and each.default not in (None, "", ())
    return f"{text} Default: {each.default}." if has_default else text
