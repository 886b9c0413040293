"""The signature of a task as text: the same in every process that has the same function."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any

_MODULE = re.compile(r"\b[A-Za-z_]\w*\.(?=[A-Za-z_])")
_SHOWN = (bool, int, float, str, type(None))


def signature_text(
    parameters: Iterable[inspect.Parameter], kinds: Mapping[str, object], result: object
) -> str:
    """Types are shown without their modules, and defaults only if they are plain values."""
    shown = ", ".join(_parameter(each, kinds[each.name]) for each in parameters)
    return f"({shown})" + ("" if result is Any else f" -> {_kind(result)}")


def _parameter(parameter: inspect.Parameter, kind: object) -> str:
    text = parameter.name if kind is Any else f"{parameter.name}: {_kind(kind)}"
    if parameter.default is parameter.empty:
        return text
    default = repr(parameter.default) if isinstance(parameter.default, _SHOWN) else "..."
    return f"{text} = {default}"


def _kind(kind: object) -> str:
    return _MODULE.sub("", inspect.formatannotation(None if kind is type(None) else kind))
