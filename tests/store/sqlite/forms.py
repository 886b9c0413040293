"""Every form of the rules, and its SQLite statements."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import flowfabric.rules
from flowfabric.plan import Form
from flowfabric.store.sql.sqlite_plan import sqlite_form


def _inside(value: Any) -> Iterator[Form]:
    if isinstance(value, Form):
        yield value
    elif isinstance(value, Mapping):
        yield from _among(value.values())
    elif isinstance(value, tuple | list | set | frozenset):
        yield from _among(value)


def _among(values: Iterable[Any]) -> Iterator[Form]:
    for value in values:
        yield from _inside(value)


def declared() -> list[Form]:
    """Each form once, whether it is a module's name or inside a table."""
    modules = [
        importlib.import_module(m.name)
        for m in pkgutil.walk_packages(flowfabric.rules.__path__, "flowfabric.rules.")
    ]
    kept = [
        value
        for module in modules
        for name, value in vars(module).items()
        if not name.startswith("__")
    ]
    return list(dict.fromkeys(_among(kept)))


ALL: dict[str, Form] = {form.name: form for form in declared()}


def statements(form: Form) -> list[str]:
    """The texts SQLite runs, the selection of a sweep with its limit."""
    text = sqlite_form(form)
    found = []
    if text.select is not None:
        found.append(text.select.sql + ("?" if form.pick is not None else ""))
    return [*found, text.head.sql, *(s.sql for s in text.rest)]
