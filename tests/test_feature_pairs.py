"""The check of the pairs of features finds what is missing, unknown, contradictory or
unreadable.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from tests.pairs import FEATURES, Meeting, Unreadable, collect, page, pair, problems, read

ALL = Meeting("tests/test_all.py", 1, "test_all", tuple(FEATURES))


def of(*features: str) -> Meeting:
    return Meeting("tests/test_some.py", 7, "test_some", features)


def but(*left_out: str) -> list[Meeting]:
    """A test for every pair, that one excepted."""
    return [of(*each) for each in combinations(FEATURES, 2) if each != left_out]


def runs(text: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.test, each.features) for each in read(text, "tests/test_x.py")]


def test_every_pair_is_tested_and_nothing_is_wrong() -> None:
    assert problems(collect()) == []


def test_a_pair_without_a_test_is_told() -> None:
    assert problems([ALL]) == problems(but("no", "pair")) == []
    assert problems(but("quota", "freeze")) == [
        "quota and freeze: no test exercises the two together"
    ]


def test_an_unknown_feature_is_reported_with_its_place() -> None:
    (found,) = problems([ALL, of("timeout", "time_out")])
    assert found.startswith(
        "tests/test_some.py:7: 'time_out' is no feature; there are timeout, deadline,"
    )


def test_an_impossible_pair_has_a_reason_and_no_test() -> None:
    impossible = {pair("quota", "freeze"): "they never meet"}
    assert problems(but("quota", "freeze"), impossible) == []
    assert problems([*but("quota", "freeze"), of("freeze", "quota")], impossible) == [
        "quota and freeze: called impossible, but tests/test_some.py:7 exercises it"
    ]
    for wrong in (
        {pair("quota", "freeze"): ""},
        {pair("quota", "thaw"): "why"},
        {pair("quota", "quota"): "why"},
    ):
        assert any(said.startswith("IMPOSSIBLE: ") for said in problems([ALL], wrong))


def test_markers_are_read_wherever_they_stand() -> None:
    text = """
import pytest
named = pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.meets("flow", "child")), 2])

@pytest.mark.meets("step", "quota")
@pytest.mark.meets("step", "cancel", "delay")
async def test_marked(): ...

class TestInside:
    @named
    def test_named(self, x): ...

def test_plain(): ...
"""
    assert runs(text) == [
        ("test_marked", ("step", "quota")),
        ("test_marked", ("step", "cancel", "delay")),
        ("test_named", ("flow", "child")),
    ]


def test_a_marker_of_a_file_is_of_all_its_tests() -> None:
    text = """
import pytest
pytestmark = [pytest.mark.slow, pytest.mark.meets("flow", "cancel")]

def test_a(): ...

@pytest.mark.meets("flow", "step")
def test_b(): ...
"""
    assert runs(text) == [
        ("test_a", ("flow", "cancel")),
        ("test_b", ("flow", "cancel")),
        ("test_b", ("flow", "step")),
    ]


def test_a_run_has_one_choice_of_each_parameter() -> None:
    text = """
import pytest
fault = pytest.mark.parametrize(
    "fault", [pytest.param(1, marks=pytest.mark.meets("crash")), pytest.param(2), 3]
)

@fault
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("a", marks=pytest.mark.meets("step", "child")),
        pytest.param("b", marks=[pytest.mark.slow, pytest.mark.meets("step", "crash")]),
    ],
)
def test_both(fault, kind): ...
"""
    first, second = ("step", "child"), ("step", "crash")
    found = [features for _, features in runs(text)]
    assert sorted(found) == sorted(
        [("crash", *first), ("crash", "step"), first, second, first, second]
    )
    assert not any(
        {"child", "crash"} <= {*features} for features in found if features[0] != "crash"
    )


@pytest.mark.parametrize("why", ['skip("later")', "xfail", "skipif(True, reason='no')"])
def test_a_test_that_need_not_pass_is_not_counted(why: str) -> None:
    assert (
        runs(
            f'import pytest\n@pytest.mark.{why}\n@pytest.mark.meets("step", "flow")\ndef '
            f"test_x(): ...\n"
        )
        == []
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '@pytest.mark.meets("step", name)\ndef test_x(): ...\n',
            "test_x.py:2: meets takes the names of features",
        ),
        (
            "@pytest.mark.meets(*NAMES)\ndef test_x(): ...\n",
            "test_x.py:2: meets takes the names of features",
        ),
        (
            '@pytest.mark.meets("step", "flow")\ndef helper(): ...\n',
            "test_x.py:2: the marker meets belongs to no test",
        ),
        (
            'x = pytest.mark.meets("step", "flow")\n',
            "test_x.py:2: the marker meets belongs to no test",
        ),
    ],
)
def test_what_cannot_be_read_is_told(text: str, said: str) -> None:
    with pytest.raises(Unreadable, match=said):
        read(f"import pytest\n{text}", "tests/test_x.py")


def test_the_files_of_a_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    marked = 'import pytest\n@pytest.mark.meets("step", "flow")\ndef test_x(): ...\n'
    for name in ("test_a.py", "deep/test_b.py", "helpers.py"):
        (tmp_path / name).write_text(marked, encoding="utf-8")
    assert [each.path for each in collect(tmp_path, tmp_path)] == ["deep/test_b.py", "test_a.py"]


def test_the_page_names_the_tests_that_exercise_a_pair_most_closely() -> None:
    several = [
        Meeting("tests/test_y.py", n, f"test_{n}", ("timeout", "deadline")) for n in range(3)
    ]
    shown = page([ALL, *several, *but("no", "pair")])
    link = (
        "- `deadline`: [test_0](../tests/test_y.py), [test_1](../tests/test_y.py), "
        "[test_2](../tests/test_y.py), and 2 more"
    )
    assert (
        link not in shown
        and "- `deadline`: [test_some](../tests/test_some.py), [test_0](../tests/test_y.py)"
        in shown
    )
    assert "| 2 `deadline` | 5 |" in shown
