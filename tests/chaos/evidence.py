"""The result of a run that the checks read: stored rows and logs of the processes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.codec.event_cursor import BEGINNING
from flowfabric.ids import ExecutionId
from flowfabric.model.event import COMPLETION_EVENTS
from flowfabric.model.execution import Execution
from flowfabric.store.port import Row
from flowfabric.verify.snapshot import Event, Snapshot, snapshot_of

from .logs import Call, History, Life

GRANTS = ("acquired", "reclaimed")
FENCED = ("renew", "progress", "step", "complete", "fail", "delay", "suspend", "give_up")
ENDS = ("complete", "fail", "delay", "suspend", "give_up")
TRIMMED = "trimmed"
"""The note of a client that removes executions of workers as well."""
RAISING = ("suspend", "give_up")
"""Writes that raise the epoch, and leave their event under the next."""
OUTCOMES = {"Success": "success", "Failure": "failed", "Cancelled": "cancelled"}
"""As a subscriber is told them, and as they are stored."""


class TaskRun(Struct, frozen=True):
    """A run of a task by its submission. `ends` are its reported ends; a `forgotten` one had an
    end.
    """

    namespace: str
    kind: str
    payload: str
    ends: tuple[str, ...]
    forgotten: bool


class Evidence(Struct, frozen=True):
    """`history` excludes calls on removed executions, whose rows are gone; `removed` are those
    about executions of workers, and `ended_ms` is the last reported end of each.
    """

    world: Snapshot
    tables: Mapping[str, list[Row]]
    history: History
    runs: Mapping[str, TaskRun] = {}
    removed: Sequence[Call] = ()
    ended_ms: Mapping[str, int] = {}

    @classmethod
    def of(cls, tables: Mapping[str, list[Row]], history: History) -> Evidence:
        world = snapshot_of(tables)
        runs = _runs(world, history)
        ended_ms = _removed(world, history, runs)
        gone = {ident for ident, run in runs.items() if run.forgotten} | ended_ms.keys()
        removed = [
            call
            for call in history.calls
            if call.execution in ended_ms or (ended_ms and call.op == "claim")
        ]
        return cls(world, tables, _without(history, gone), runs, removed, ended_ms)

    def execution(self, ident: str) -> Execution | None:
        return self.world.executions.get(key_of(ident))

    def leases(self, ident: str) -> list[Event]:
        return self.world.leases.get(key_of(ident), [])


def key_of(ident: str) -> tuple[int, UUID]:
    parsed = ExecutionId(ident)
    return parsed.partition_index, parsed.uuid


def stream_of(history: History, channel: str) -> tuple[list[dict[str, Any]], Life | None]:
    """The events received by all lives of the subscriber, and the life that started without a
    cursor.
    """
    stream: list[dict[str, Any]] = []
    for life in (life for life in history.lives if life.channel == channel):
        kept = len(stream)
        while kept and stream[kept - 1]["cursor"] != life.resumed:
            kept -= 1
        if not kept and life.resumed != BEGINNING.hex():
            return stream, life
        stream[kept:] = life.events
    return stream, None


def _runs(world: Snapshot, history: History) -> dict[str, TaskRun]:
    """Runs of every acknowledged submission, and of every other submission with a stored
    execution.
    """
    ends: dict[str, list[str]] = defaultdict(list)
    for line in stream_of(history, COMPLETION_EVENTS)[0]:
        if line["outcome"] != "resumable":
            ends[line["execution"]].append(OUTCOMES.get(line["outcome"], line["outcome"]))
    for note in history.notes:
        if note["op"] == "saw":
            ends[note["execution"]] = ends[note["execution"]] or [note["outcome"]]
    found: dict[str, TaskRun] = {}
    for call in history.calls:
        if call.op != "create" or "runs" not in call.facts or call.verdict == "refused":
            continue
        idents = [
            ident for ident, _ in (call.reply["made"] if call.acknowledged else call.facts["asked"])
        ]
        for ident, (namespace, kind, payload) in zip(idents, call.facts["runs"], strict=True):
            is_there = key_of(ident) in world.executions
            if is_there or call.acknowledged or ends[ident]:
                found[ident] = TaskRun(
                    namespace, kind, payload, tuple(ends[ident]), not is_there and bool(ends[ident])
                )
    return found


def _removed(world: Snapshot, history: History, runs: Mapping[str, TaskRun]) -> dict[str, int]:
    """Executions of workers that retention has removed."""
    if not any(note["op"] == TRIMMED for note in history.notes):
        return {}
    return {
        line["execution"]: line["at"]
        for line in stream_of(history, COMPLETION_EVENTS)[0]
        if line["outcome"] != "resumable"
        and line["execution"] not in runs
        and key_of(line["execution"]) not in world.executions
    }


def _without(history: History, gone: set[str]) -> History:
    calls = [
        _pared(call, gone) if call.op in ("create", "claim") else call
        for call in history.calls
        if call.execution not in gone
    ]
    return History(calls, history.lives, history.notes)


def _pared(call: Call, gone: set[str]) -> Call:
    """A call on several executions, reduced to those that still exist."""
    if call.op == "claim":
        kept = [one for one in call.reply.get("granted", []) if one[0] not in gone]
        return (
            structs.replace(call, reply={**call.reply, "granted": kept})
            if call.acknowledged
            else call
        )
    named = call.reply["made"] if call.acknowledged else call.facts["asked"]
    stays = [ident not in gone for ident, _ in named]
    facts = {
        name: _kept(value, stays) if name in ("asked", "runs") else value
        for name, value in call.facts.items()
    }
    reply = (
        {**call.reply, "made": _kept(call.reply["made"], stays)}
        if call.acknowledged
        else call.reply
    )
    return structs.replace(call, facts=facts, reply=reply)


def _kept(values: list[Any], stays: list[bool]) -> list[Any]:
    return [value for value, stay in zip(values, stays, strict=True) if stay]
