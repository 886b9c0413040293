"""Requests that share a statement: which of them can, and how its answers are split."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from itertools import islice
from typing import Any, TypeVar

from flowfabric.plan import Form, Plan

T = TypeVar("T")
Sweep = tuple[Plan, int]
"""A plan that picks rows, and how many of them at most."""


def split_answers(answers: Iterable[T], requests: Iterable[Sized]) -> list[list[T]]:
    """Each request gets as many answers as it has plans, in order."""
    remaining = iter(answers)
    return [list(islice(remaining, len(request))) for request in requests]


def selection(plan: Plan) -> tuple[Form, Any]:
    """What a sweep selects its rows by; sweeps that share it can share a statement."""
    return plan.form, plan.form.pick_key(plan.values)


def chunks(items: Sequence[T], size: int) -> list[list[T]]:
    return [list(items[at : at + size]) for at in range(0, len(items), size)]
