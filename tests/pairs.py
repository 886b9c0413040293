"""Which tests exercise which pairs of features. `python -m tests.pairs` fails for a pair that no
test exercises.

A test says it with `@pytest.mark.meets("timeout", "retry", ...)`: each pair of the names is
exercised in one run of it. Several
markers are several runs. Where parameters carry markers, a run exercises what those of all its
parameters name together. The
markers are read from the source; nothing is imported.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
MARKER, ALL_TESTS = "meets", "pytestmark"
UNCOUNTED = ("skip", "skipif", "xfail")
"""A test that does not have to pass proves nothing."""

FEATURES: Mapping[str, str] = {
    "timeout": "the limit of an attempt",
    "deadline": "the time at which a run ends, whatever it does",
    "retry": "another attempt after a failure",
    "delay": "a run or an attempt that waits for a time: a delayed submission, a sleep",
    "suspend": "a wait for a signal, an approval included",
    "step": "a result that is recorded once",
    "child": "runs that a task submits and waits for",
    "flow": "runs with dependencies among them",
    "quorum": "n of m: of upstreams, or of answers",
    "budget_action": "what a breached budget does to the run: fail, suspend, cancel",
    "quota": "how many start in a window of time, or run at once",
    "cancel": "an end by an operator, a caller, a flow, a parent",
    "replay": "an ended run that begins again",
    "revoke": "a lease that an operator takes away",
    "reclaim": "a lease that ran out, and the run in other hands",
    "retention": "rows that are removed some time after the end",
    "crash": "a process that dies at any point",
    "freeze": "a process or a holder that stands still, and acts afterwards",
    "clock_step": "a clock that is set forward or back",
    "leader_change": "the loops of one process are taken over by another",
    "second_tenant": "another namespace with the same names",
    "deploy": "another version of the tasks, in the middle of their runs",
}

Pair = frozenset[str]


def pair(one: str, other: str) -> Pair:
    return frozenset((one, other))


IMPOSSIBLE: Mapping[Pair, str] = {}
"""Pairs in which one feature cannot reach the other, on any store, and why."""


class Meeting(NamedTuple):
    """One marker of one test."""

    path: str
    line: int
    test: str
    features: tuple[str, ...]

    @property
    def pairs(self) -> set[Pair]:
        return {pair(one, other) for one, other in combinations(self.features, 2)}


class Unreadable(Exception):
    """A marker that cannot be read from the source."""


# ---- reading the markers


def collect(folder: Path = ROOT / "tests", root: Path = ROOT) -> list[Meeting]:
    found: list[Meeting] = []
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if f"mark.{MARKER}" in text:
            found += read(text, path.relative_to(root).as_posix())
    return found


def read(text: str, path: str) -> list[Meeting]:
    """The markers of one file, in its order. A marker stands on a test, in its parameters, in a
    decorator that has a name, or in
    `pytestmark`.
    """
    tree = ast.parse(text)
    named = {
        name.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for name in _names(node.targets)
    }
    of_all = [named[ALL_TESTS]] if ALL_TESTS in named else []
    found, seen = list[Meeting](), set[int]()
    for test in ast.walk(tree):
        if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef) and test.name.startswith(
            "test"
        ):
            own = [
                named.get(each.id, each) if isinstance(each, ast.Name) else each
                for each in test.decorator_list
            ]
            marks = [*of_all, *own]
            seen.update(id(call) for mark in marks for call in _calls(mark, MARKER))
            if not any(
                _is_mark(node, each)
                for mark in marks
                for node in ast.walk(mark)
                for each in UNCOUNTED
            ):
                found += [
                    Meeting(path, test.lineno, test.name, features)
                    for features in _runs(marks, path)
                ]
    for call in _calls(tree, MARKER):
        if id(call) not in seen:
            raise Unreadable(f"{path}:{call.lineno}: the marker {MARKER} belongs to no test")
    return sorted(found, key=lambda each: each.line)


def _runs(marks: Iterable[ast.expr], path: str) -> Iterator[tuple[str, ...]]:
    """The features of each kind of run: those of each marker of the test, and of each choice of its
    parameters.
    """
    choices: list[list[tuple[str, ...]]] = []
    for mark in marks:
        if isinstance(mark, ast.Call) and _is_mark(mark.func, "parametrize"):
            choices.append(
                [features for value in _values(mark) for features in _marked(value, path)]
            )
        else:
            yield from (_features(call, path) for call in _calls(mark, MARKER))
    for chosen in product(*choices):
        features = tuple(dict.fromkeys(name for features in chosen for name in features))
        if features:
            yield features


def _values(parametrize: ast.Call) -> list[ast.expr]:
    values = parametrize.args[1] if len(parametrize.args) > 1 else parametrize
    return values.elts if isinstance(values, ast.List | ast.Tuple) else [values]


def _marked(value: ast.expr, path: str) -> list[tuple[str, ...]]:
    return [_features(call, path) for call in _calls(value, MARKER)] or [()]


def _names(targets: Iterable[ast.expr]) -> Iterator[ast.Name]:
    return (each for each in targets if isinstance(each, ast.Name))


def _is_mark(node: ast.AST, name: str) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "mark"
    )


def _calls(within: ast.AST, name: str) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(within)
        if isinstance(node, ast.Call) and _is_mark(node.func, name)
    ]


def _features(call: ast.Call, path: str) -> tuple[str, ...]:
    names = [
        each.value
        for each in call.args
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    if len(names) != len(call.args) or call.keywords:
        raise Unreadable(
            f"{path}:{call.lineno}: {MARKER} takes the names of features, each as a text of its own"
        )
    return tuple(names)


# ---- what is wrong with them


def table(meetings: Iterable[Meeting]) -> dict[Pair, list[Meeting]]:
    """The tests of each pair; those that exercise the fewest features, and so the pair most
    closely, come first.
    """
    found: dict[Pair, list[Meeting]] = {frozenset(each): [] for each in combinations(FEATURES, 2)}
    for meeting in sorted(meetings, key=lambda each: (len(each.features), each.path, each.line)):
        for each in meeting.pairs & found.keys():
            found[each].append(meeting)
    return found


def problems(meetings: Sequence[Meeting], impossible: Mapping[Pair, str] = IMPOSSIBLE) -> list[str]:
    """Unknown features, pairs without a test, and pairs that are called impossible and have one."""
    wrong = [
        f"{each.path}:{each.line}: {name!r} is no feature; there are {', '.join(FEATURES)}"
        for each in meetings
        for name in each.features
        if name not in FEATURES
    ]
    wrong += [
        f"IMPOSSIBLE: {_said(each)}: two features, and a reason"
        for each, why in impossible.items()
        if not _is_right(each, why)
    ]
    for each, tests in table(meetings).items():
        if each in impossible and tests:
            wrong.append(
                f"{_said(each)}: called impossible, but {tests[0].path}:{tests[0].line} "
                f"exercises it"
            )
        if each not in impossible and not tests:
            wrong.append(f"{_said(each)}: no test exercises the two together")
    return wrong


def _is_right(each: Pair, why: str) -> bool:
    return len(each) == 2 and each <= FEATURES.keys() and bool(why)


def _said(each: Pair) -> str:
    return " and ".join(sorted(each, key=list(FEATURES).index if each <= FEATURES.keys() else None))


# ---- the page


SHOWN = 3
_INTRO = """# Features that meet

<!-- Made by `make docs` from the tests. Change those, or tests/pairs.py, not this page. -->

Most defects of a durable engine are in what two features do to each other. Every pair of the
features below is exercised by at least one test, in one run; `make check` fails when a pair has
none. A test says what meets in it with
`@pytest.mark.meets("timeout", "retry")`.

"""


def page(meetings: Sequence[Meeting]) -> str:
    return _INTRO + _words() + _matrix(table(meetings)) + _lists(table(meetings))


def _words() -> str:
    rows = [
        f"| {number} | `{name}` | {says} |"
        for number, (name, says) in enumerate(FEATURES.items(), 1)
    ]
    return "\n".join(["| | feature | it |", "|---|---|---|", *rows]) + "\n\n"


def _matrix(tests: Mapping[Pair, Sequence[Meeting]]) -> str:
    names = list(FEATURES)
    lines = [
        "## How many tests",
        "",
        "| | " + " | ".join(str(n) for n in range(1, len(names))) + " |",
    ]
    lines.append("|---" * len(names) + "|")
    for at, name in enumerate(names[1:], 1):
        cells = [_count(pair(name, other), tests) for other in names[:at]] + [""] * (
            len(names) - 1 - at
        )
        lines.append(f"| {at + 1} `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n\n"


def _count(each: Pair, tests: Mapping[Pair, Sequence[Meeting]]) -> str:
    return "n/a" if each in IMPOSSIBLE else str(len({(m.path, m.test) for m in tests[each]}))


def _lists(tests: Mapping[Pair, Sequence[Meeting]]) -> str:
    """Under each feature those that come after it."""
    names, lines = list(FEATURES), ["## Which", ""]
    lines += [
        f"Of each pair at most {SHOWN} tests are named, those of the fewest features first.",
        "",
    ]
    for at, name in enumerate(names[:-1]):
        lines += [f"### {name}", ""]
        lines += [f"- `{other}`: {_shown(pair(name, other), tests)}" for other in names[at + 1 :]]
        lines.append("")
    return "\n".join(lines)


def _shown(each: Pair, tests: Mapping[Pair, Sequence[Meeting]]) -> str:
    if each in IMPOSSIBLE:
        return f"cannot meet: {IMPOSSIBLE[each]}"
    named = list(dict.fromkeys(f"[{m.test}](../{m.path})" for m in tests[each]))
    rest = f", and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return ", ".join(named[:SHOWN]) + rest


def main() -> None:
    try:
        wrong = problems(collect())
    except Unreadable as error:
        wrong = [str(error)]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
