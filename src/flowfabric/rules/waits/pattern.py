"""Regular expressions without backtracking: the work grows with the text, whatever the pattern.

`re` takes exponential time for patterns such as `(a+)+$`, and nothing can interrupt it. Here a
search follows all ways through the pattern at once, within a budget of steps.
"""

from __future__ import annotations

import re
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from msgspec import Struct

MAX_STATES, MAX_PARTS = 2_000, 20_000
KEPT = 256
_ANY_FLAGS = re.UNICODE
Accepts = Callable[[str], bool]


class Unsupported(ValueError):
    """The pattern is none, or has a part that cannot be searched without backtracking."""


class State(Struct):
    """Reads a character that `accepts` takes, or holds at a place, or reads nothing; then goes to
    each of `to`. The last state goes nowhere.
    """

    to: list[int]
    accepts: Accepts | None = None
    place: str = ""


class Pattern(Struct, frozen=True):
    states: list[State]
    first: int


@lru_cache(KEPT)
def compiled(text: str) -> Pattern:
    try:
        re.compile(text)
        tree = parser.parse(text)
        if tree.state.flags & ~_ANY_FLAGS:
            raise Unsupported("flags are not supported")
        made = _Builder()
        return Pattern(made.states, made.sequence(tree, made.last))
    except (re.error, OverflowError, RecursionError) as error:
        raise Unsupported(str(error)) from None


def search(pattern: Pattern, text: str, budget: int) -> tuple[bool | None, int]:
    """Whether the pattern occurs, and the budget that is left. None when it is spent."""
    states, current = pattern.states, set[int]()
    for at in range(len(text) + 1):
        todo = [*current, pattern.first]
        seen, ahead = set(todo), list[State]()
        while todo:
            state = states[todo.pop()]
            budget -= 1
            if budget < 0:
                return None, 0
            if state.accepts is not None:
                ahead.append(state)
                continue
            if state.place and not _holds(state.place, text, at):
                continue
            if not state.to:
                return True, budget
            for other in state.to:
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        for char in text[at : at + 1]:
            current = {state.to[0] for state in ahead if state.accepts and state.accepts(char)}
    return False, budget


def _holds(place: str, text: str, at: int) -> bool:
    match place:
        case "AT_BEGINNING" | "AT_BEGINNING_STRING":
            return at == 0
        case "AT_END":
            return at == len(text) or (at == len(text) - 1 and text[at] == "\n")
        case "AT_END_STRING":
            return at == len(text)
    before = at > 0 and _is_word(text[at - 1])
    after = at < len(text) and _is_word(text[at])
    return (before != after) == (place == "AT_BOUNDARY")


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


_PLACES = frozenset(
    f"AT_{name}"
    for name in (
        "BEGINNING",
        "BEGINNING_STRING",
        "END",
        "END_STRING",
        "BOUNDARY",
        "NON_BOUNDARY",
    )
)
_CATEGORIES: dict[str, Accepts] = {
    "DIGIT": str.isdecimal,
    "SPACE": str.isspace,
    "WORD": _is_word,
}


class _Builder:
    """Builds states from the end of the pattern to its beginning."""

    def __init__(self) -> None:
        self.states = [State([])]
        self.last = self._parts = 0

    def sequence(self, parts: Iterable[tuple[Any, Any]], then: int) -> int:
        self._parts += 1
        if self._parts > MAX_PARTS:  # of repeats of nothing, which need no states
            raise Unsupported("it is too large")
        for part, value in reversed(list(parts)):
            then = self._part(str(part), value, then)
        return then

    def _add(self, to: list[int], accepts: Accepts | None = None, place: str = "") -> int:
        if len(self.states) >= MAX_STATES:
            raise Unsupported("it is too large")
        self.states.append(State(to, accepts, place))
        return len(self.states) - 1

    def _part(self, part: str, value: Any, then: int) -> int:
        match part:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return self._add([then], _accepts(part, value))
            case "AT" if str(value) in _PLACES:
                return self._add([then], place=str(value))
            case "BRANCH":
                return self._add([self.sequence(each, then) for each in value[1]])
            case "SUBPATTERN" if not (value[1] or value[2]):
                return self.sequence(value[3], then)
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, inner = value
                return self._repeat(least, most, inner, then)
        raise Unsupported(f"{part.lower().replace('_', ' ')} is not supported")

    def _repeat(self, least: int, most: Any, inner: Any, then: int) -> int:
        if str(most) == "MAXREPEAT":
            again = self._add([])
            self.states[again].to = [self.sequence(inner, again), then]
            then = again
        else:
            end = then
            for _ in range(most - least):
                then = self._add([self.sequence(inner, then), end])
        for _ in range(least):
            then = self.sequence(inner, then)
        return then


def _accepts(part: str, value: Any) -> Accepts:
    match part:
        case "LITERAL":
            return lambda char: ord(char) == value
        case "NOT_LITERAL":
            return lambda char: ord(char) != value
        case "ANY":
            return lambda char: char != "\n"
        case "RANGE":
            return lambda char: value[0] <= ord(char) <= value[1]
        case "CATEGORY":
            return _category(str(value).removeprefix("CATEGORY_"))
    return _one_of(value)


def _category(name: str) -> Accepts:
    holds = _CATEGORIES[name.removeprefix("NOT_")]
    if name.startswith("NOT_"):
        return lambda char: not holds(char)
    return holds


def _one_of(parts: list[tuple[Any, Any]]) -> Accepts:
    tests = [_accepts(str(part), value) for part, value in parts if str(part) != "NEGATE"]
    negated = len(tests) < len(parts)
    return lambda char: any(test(char) for test in tests) != negated
