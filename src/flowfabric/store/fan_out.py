"""Answers that came together, dealt to those who asked together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")


def dealt(answers: Iterable[T], asked: Iterable[Sequence[Any]]) -> list[list[T]]:
    """To each, in turn, as many as he asked for."""
    left = iter(answers)
    return [list(islice(left, len(each))) for each in asked]
