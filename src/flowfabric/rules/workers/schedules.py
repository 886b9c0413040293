"""The cursors of schedules: added once, moved by compare-and-set, paused and resumed."""

from __future__ import annotations

from flowfabric.plan import Arg, Cond, Form, Insert, Now, Plan, Update
from flowfabric.rules.columns import by_args, from_args

SCHEDULE = "ff_schedule"
_KEY = by_args("namespace", "name")

ADD = Form(
    "add_schedule",
    Insert(SCHEDULE, {**from_args("namespace", "name"), "cursor_ms": Now(), "paused": 0}),
)
MOVE = Form(
    "move_schedule",
    Update(
        SCHEDULE, (*_KEY, Cond("cursor_ms", "=", Arg("was_ms"))), {"cursor_ms": Arg("cursor_ms")}
    ),
)
PAUSE = Form("pause_schedule", Update(SCHEDULE, (*_KEY, Cond("paused", "=", 0)), {"paused": 1}))
RESUME = Form(
    "resume_schedule",
    Update(SCHEDULE, (*_KEY, Cond("paused", "=", 1)), {"paused": 0, "cursor_ms": Now()}),
)
"""Fires missed while the schedule was paused are skipped."""


def add(namespace: str, name: str) -> Plan:
    return ADD(namespace=namespace, name=name)


def move(namespace: str, name: str, was_ms: int, cursor_ms: int) -> Plan:
    return MOVE(namespace=namespace, name=name, was_ms=was_ms, cursor_ms=cursor_ms)


def pause(namespace: str, name: str) -> Plan:
    return PAUSE(namespace=namespace, name=name)


def resume(namespace: str, name: str) -> Plan:
    return RESUME(namespace=namespace, name=name)
