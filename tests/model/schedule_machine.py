"""The machine of schedules: marks read by several callers and moved by one, pauses in between, and
repetitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from flowfabric.model.schedule import ScheduleMark, ScheduleMarks

from .bench import Bench
from .ops import Op
from .schedule_spec import LAST_MS, Schedules

KEPT = 6
TICK_MS = 1_000


def begin(namespace: str, name: str) -> Op:
    return Op(
        f"begin {namespace}/{name}",
        lambda e: e.begin_schedule(namespace, name),
        lambda s: s.begin(namespace, name),
    )


def read(namespace: str) -> Op:
    return Op(
        f"read {namespace}", lambda e: e.read_schedules(namespace), lambda s: s.read(namespace)
    )


def move(mark: ScheduleMark, cursor_ms: int) -> Op:
    return Op(
        f"move {mark} to {cursor_ms}",
        lambda e: e.move_schedule(mark, cursor_ms),
        lambda s: s.move(mark, cursor_ms),
    )


def pause(namespace: str, name: str) -> Op:
    return Op(
        f"pause {namespace}/{name}",
        lambda e: e.pause_schedule(namespace, name),
        lambda s: s.pause(namespace, name),
    )


def resume(namespace: str, name: str) -> Op:
    return Op(
        f"resume {namespace}/{name}",
        lambda e: e.resume_schedule(namespace, name),
        lambda s: s.resume(namespace, name),
    )


BY_NAME: dict[str, Callable[[str, str], Op]] = {"begin": begin, "pause": pause, "resume": resume}
keys = st.sampled_from((("a", "x"), ("a", "x"), ("a", "y"), ("b", "x")))
named = st.sampled_from(sorted(BY_NAME))
steps = st.sampled_from((0, 1, TICK_MS, -TICK_MS))
recent = st.integers(0, KEPT - 1)
Key = tuple[str, str]


class ScheduleMachine(RuleBasedStateMachine):
    kind: ClassVar[str] = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(self.kind, Schedules)
        self.seen: list[ScheduleMark] = []
        self.last: Op | None = None

    def teardown(self) -> None:
        self.bench.close()

    def do(self, op: Op) -> Any:
        self.last = op
        return self.bench.do(op)

    def mark(self, which: int) -> ScheduleMark:
        return self.seen[-1 - which % len(self.seen)]

    def look(self, namespace: str) -> None:
        found: ScheduleMarks = self.do(read(namespace))
        self.seen = [*self.seen, *found.marks.values()][-KEPT:]

    def to(self, step: int) -> int:
        return self.bench.clock() + step

    @rule(key=keys, what=named)
    def by_name(self, key: Key, what: str) -> None:
        self.do(BY_NAME[what](*key))

    @rule(key=keys)
    def read(self, key: Key) -> None:
        self.look(key[0])

    @precondition(lambda self: self.seen)
    @rule(which=recent, step=steps)
    def move(self, which: int, step: int) -> None:
        self.do(move(self.mark(which), self.to(step)))

    @rule(key=keys, step=steps, again=steps)
    def see_and_move_twice(self, key: Key, step: int, again: int) -> None:
        """Two have read the same mark: the second finds that it has moved, if it has."""
        self.do(begin(*key))
        self.look(key[0])
        mark = next(mark for mark in self.seen if (mark.namespace, mark.name) == key)
        for each in (step, again):
            self.do(move(mark, self.to(each)))
        self.look(key[0])

    @rule(key=keys, ms=st.sampled_from((0, 1, TICK_MS)), step=steps)
    def look_away_while_it_rests(self, key: Key, ms: int, step: int) -> None:
        """Paused after a read, resumed later; the mark is moved by the reader of before."""
        self.do(begin(*key))
        self.look(key[0])
        mark = next(mark for mark in self.seen if (mark.namespace, mark.name) == key)
        self.do(pause(*key))
        self.bench.to(self.to(ms))
        self.look(key[0])
        self.do(resume(*key))
        self.do(move(mark, self.to(step)))

    @rule(first=keys, what=named, second=keys, other=named)
    def race(self, first: Key, what: str, second: Key, other: str) -> None:
        self.bench.race(BY_NAME[what](*first), BY_NAME[other](*second))

    @precondition(lambda self: self.seen)
    @rule(which=recent, other=recent, step=steps, again=steps)
    def race_to_move(self, which: int, other: int, step: int, again: int) -> None:
        self.bench.race(
            move(self.mark(which), self.to(step)), move(self.mark(other), self.to(again))
        )

    @precondition(lambda self: self.seen)
    @rule(which=recent, step=steps, what=named)
    def race_with_a_move(self, which: int, step: int, what: str) -> None:
        mark = self.mark(which)
        self.bench.race(move(mark, self.to(step)), BY_NAME[what](mark.namespace, mark.name))

    @precondition(lambda self: self.seen)
    @rule(which=recent, cursor=st.sampled_from((-1, 0, LAST_MS, LAST_MS + 1)))
    def move_far(self, which: int, cursor: int) -> None:
        self.do(move(self.mark(which), cursor))

    @rule(what=named, key=st.sampled_from((("", "x"), ("a", ""))))
    def nameless(self, what: str, key: Key) -> None:
        self.do(BY_NAME[what](*key))

    @precondition(lambda self: self.last is not None)
    @rule()
    def repeat(self) -> None:
        """The repetition after a lost answer."""
        assert self.last is not None
        self.do(self.last)

    @rule(ms=st.sampled_from((1, TICK_MS, 90_000)))
    def time_passes(self, ms: int) -> None:
        self.bench.to(self.to(ms))

    @rule()
    def crash(self) -> None:
        self.bench.reopen()


def schedule_machine_on(store: str) -> type[ScheduleMachine]:
    return type(
        f"{store.title().replace('-', '')}ScheduleMachine", (ScheduleMachine,), {"kind": store}
    )
