from __future__ import annotations

from itertools import permutations
from uuid import UUID

import pytest

from flowfabric.errors import ValidationError, ValidationKind
from flowfabric.model.waitpoint import (
    MAX_CONDITION_NODES,
    AllOf,
    Condition,
    Count,
    OperatorOnly,
    Single,
    TimeoutOnly,
    all_of_waitpoints,
    any_of_waitpoints,
)
from flowfabric.rules.waits.conditions import (
    Arrived,
    check_shape,
    is_composite,
    is_met,
    judge,
    nodes,
    referenced,
    required_names,
)

from .wait_factory import SIGNALS, SOURCES, WAITPOINTS, nested

MET, KEPT, AGAIN = (
    "resume_condition_satisfied",
    "appended_to_waitpoint",
    "appended_to_waitpoint_duplicate",
)
NO_MATCH, NOT_HERE = "signal_ignored_matcher_failed", "signal_ignored_not_in_condition"


def sent(
    key: str, name: str = "go", number: int = 1, source: str = "s", kind: str = "user"
) -> Arrived:
    """A signal on the waitpoint of that key; the waitpoint's id follows from the key."""
    return Arrived(
        UUID(bytes=key.encode().rjust(16, b"\0")), key, UUID(int=number), name, kind, source
    )


def effects(condition: Condition, *signals: Arrived) -> list[str]:
    said, satisfied = [], ()
    for signal in signals:
        verdict = judge(condition, satisfied, signal)
        assert (
            verdict.met
            == (verdict.effect == MET)
            == (is_met(condition, verdict.satisfied) and verdict.satisfied != satisfied)
        )
        assert verdict.satisfied[: len(satisfied)] == satisfied
        satisfied = verdict.satisfied
        said.append(verdict.effect)
    return said


def refused(condition: Condition) -> str:
    with pytest.raises(ValidationError) as caught:
        check_shape(condition)
    assert caught.value.kind is ValidationKind.INVALID_INPUT
    return caught.value.detail


@pytest.mark.parametrize(
    ("condition", "detail"),
    [
        (nested(5), "depth 5 exceeds cap 4 at path members[0].members[0].members[0].members[0]"),
        (nested(9), "depth 5 exceeds cap 4 at path members[0].members[0].members[0].members[0]"),
        (
            AllOf((Single("a"), nested(3, Count(1, SIGNALS, ("a",))))),
            "depth 5 exceeds cap 4 at path members[1].members[0].members[0].members[0]",
        ),
        (
            AllOf((AllOf(()), nested(4))),
            "depth 5 exceeds cap 4 at path members[1].members[0].members[0].members[0]",
        ),
        (AllOf(()), "allof_empty_members at path <root>"),
        (AllOf((Single("a"), AllOf(()))), "allof_empty_members at path members[1]"),
        (
            AllOf((AllOf((Single("a"), AllOf(()))),)),
            "allof_empty_members at path members[0].members[1]",
        ),
        (Count(0, WAITPOINTS, ()), "count_n_zero at path <root>"),
        (Count(-1, SIGNALS, ("a",)), "count_n_zero at path <root>"),
        (Count(1, SOURCES, ()), "count_waitpoints_empty at path <root>"),
        (AllOf((Count(2, SOURCES, ()),)), "count_waitpoints_empty at path members[0]"),
        (
            Count(3, WAITPOINTS, ("a", "b")),
            "count_exceeds_waitpoint_set: n=3 > waitpoints.len()=2 at path <root>",
        ),
        (
            AllOf((Single("a"), Count(2, WAITPOINTS, ("b",)))),
            "count_exceeds_waitpoint_set: n=2 > waitpoints.len()=1 at path members[1]",
        ),
    ],
)
def test_a_shape_that_is_refused(condition: Condition, detail: str) -> None:
    assert refused(condition) == detail


@pytest.mark.parametrize(
    "condition",
    [
        Single("a"),
        OperatorOnly(),
        TimeoutOnly(),
        *(nested(depth) for depth in range(1, 5)),
        nested(3, Count(1, SIGNALS, ("a",))),
        Count(1, WAITPOINTS, ("a",)),
        Count(2, WAITPOINTS, ("a", "b")),
        Count(9, SIGNALS, ("a",)),
        Count(9, SOURCES, ("a",)),
        all_of_waitpoints("a", "b"),
        any_of_waitpoints("a", "b"),
        AllOf((OperatorOnly(), TimeoutOnly())),
    ],
)
def test_a_shape_that_is_fine(condition: Condition) -> None:
    check_shape(condition)


def test_a_condition_has_a_largest_size() -> None:
    check_shape(AllOf(tuple(Single(f"k{at}") for at in range(MAX_CONDITION_NODES - 1))))
    wide = AllOf(tuple(Single(f"k{at}") for at in range(MAX_CONDITION_NODES)))
    assert refused(wide) == f"condition has more than {MAX_CONDITION_NODES} nodes"


def test_paths_of_a_tree() -> None:
    tree = AllOf((AllOf((Single("a"), Single("b"), Single("c"))), OperatorOnly()))
    assert [path for path, _ in nodes(tree)] == [
        "",
        "members[0]",
        "members[0].members[0]",
        "members[0].members[1]",
        "members[0].members[2]",
        "members[1]",
    ]


@pytest.mark.parametrize(
    ("condition", "composite"),
    [
        (Single("a"), False),
        (OperatorOnly(), False),
        (TimeoutOnly(), False),
        (AllOf(()), True),
        (Count(1, SIGNALS, ()), True),
    ],
)
def test_what_is_composite(condition: Condition, composite: bool) -> None:
    assert is_composite(condition) is composite


TREE = AllOf(
    (
        Single("b", "yes"),
        Count(1, SIGNALS, ("a", "b"), "vote"),
        Single("a"),
        AllOf((Single("b", "yes"), Single("b", "last"))),
        Count(1, SIGNALS, ("c",)),
    )
)


def test_the_keys_a_condition_listens_on_in_the_order_of_the_tree() -> None:
    assert referenced(TREE) == ["b", "a", "c"]
    assert referenced(OperatorOnly()) == referenced(TimeoutOnly()) == []


@pytest.mark.parametrize(
    ("condition", "key", "names"),
    [
        (TREE, "b", ["yes", "vote", "last"]),
        (TREE, "a", ["vote"]),
        (TREE, "c", []),
        (TREE, "elsewhere", []),
        (OperatorOnly(), "a", ["__operator_only__"]),
        (TimeoutOnly(), "a", ["__timeout_only__"]),
        (
            AllOf((Single("a", "x"), OperatorOnly(), TimeoutOnly())),
            "a",
            ["x", "__operator_only__", "__timeout_only__"],
        ),
    ],
)
def test_the_names_a_waitpoint_waits_for(condition: Condition, key: str, names: list[str]) -> None:
    assert required_names(condition, key) == names


@pytest.mark.parametrize(
    ("condition", "signals", "said"),
    [
        (Single("a"), [sent("a")], [MET]),
        (Single("a"), [sent("a", "")], [MET]),
        (Single("a", "go"), [sent("a", "Go"), sent("a", "go ")], [KEPT, KEPT]),
        (Single("a", "go"), [sent("a", "no"), sent("a", "go")], [KEPT, MET]),
        (Single("a"), [sent("b")], [KEPT]),
        (OperatorOnly(), [sent("a")], [KEPT]),
        (TimeoutOnly(), [sent("a")], [KEPT]),
        (AllOf((Single("a"),)), [sent("b")], [NOT_HERE]),
        (AllOf((Single("a", "go"),)), [sent("a", "no"), sent("a")], [NO_MATCH, MET]),
        (
            all_of_waitpoints("a", "b"),
            [sent("a"), sent("a", "x", 2), sent("b")],
            [KEPT, AGAIN, MET],
        ),
        (any_of_waitpoints("a", "b"), [sent("c"), sent("b")], [NOT_HERE, MET]),
        (AllOf((Single("a"), OperatorOnly())), [sent("a"), sent("a")], [KEPT, AGAIN]),
        (AllOf((Single("a"), TimeoutOnly())), [sent("a"), sent("b")], [KEPT, NOT_HERE]),
        (
            Count(2, WAITPOINTS, ("a", "b", "c")),
            [sent("a"), sent("a", number=2), sent("c")],
            [KEPT, AGAIN, MET],
        ),
        (
            Count(2, SIGNALS, ("a",)),
            [sent("a"), sent("a"), sent("a", number=2)],
            [KEPT, AGAIN, MET],
        ),
        (
            Count(2, SOURCES, ("a",)),
            [sent("a"), sent("a", number=2), sent("a", source="t")],
            [KEPT, AGAIN, MET],
        ),
        (Count(2, SOURCES, ("a",)), [sent("a"), sent("a", kind="robot")], [KEPT, MET]),
        (
            Count(2, SIGNALS, ("a", "b"), "vote"),
            [sent("a", "vote"), sent("b", "veto", 2), sent("b", "vote", 3)],
            [KEPT, NO_MATCH, MET],
        ),
        (nested(4), [sent("b"), sent("a")], [NOT_HERE, MET]),
        (nested(4, Single("a", "go")), [sent("a", "no"), sent("a")], [NO_MATCH, MET]),
    ],
)
def test_what_each_signal_does(
    condition: Condition, signals: list[Arrived], said: list[str]
) -> None:
    assert effects(condition, *signals) == said


@pytest.mark.parametrize("order", list(permutations(("x", "y", "z"))))
def test_three_names_on_one_waitpoint_in_any_order(order: tuple[str, ...]) -> None:
    condition = AllOf(tuple(Single("a", name) for name in ("x", "y", "z")))
    first, *_ = order
    twice = (first, *order)
    assert effects(condition, *(sent("a", name, at) for at, name in enumerate(twice))) == [
        KEPT,
        AGAIN,
        KEPT,
        MET,
    ]


def test_one_signal_may_feed_several_nodes() -> None:
    condition = AllOf((Single("a"), Count(1, SIGNALS, ("a", "b")), Single("a", "go")))
    verdict = judge(condition, (), sent("a"))
    assert verdict.satisfied == (
        "leaf:members[0]",
        f"members[1]#sig:{UUID(int=1)}",
        "leaf:members[2]",
    )
    assert verdict.met and verdict.matched
    assert effects(condition, sent("a", "other"), sent("a")) == [KEPT, MET]


def test_counts_of_one_kind_do_not_share_what_satisfies_them() -> None:
    condition = AllOf((Count(2, SOURCES, ("a",)), Count(2, SOURCES, ("b",))))
    said = effects(
        condition,
        sent("a", source="s"),
        sent("a", source="t"),
        sent("b", source="s"),
        sent("b", source="t"),
    )
    assert said == [KEPT, KEPT, KEPT, MET]


def test_a_count_is_not_fed_by_a_longer_path() -> None:
    """Members 1 and 10, and a count inside another's path, are distinct."""
    many = AllOf(tuple(Count(1, SIGNALS, (f"k{at}",)) for at in range(11)))
    fed = [f"members[{at}]#sig:x" for at in (0, *range(2, 11))]
    assert not is_met(many, (*fed, "members[10]#sig:y"))
    assert not is_met(Count(1, SIGNALS, ("a",)), ("members[0]#sig:x",))


@pytest.mark.parametrize(
    ("condition", "token"),
    [
        (Single("a"), "leaf:"),
        (Count(1, WAITPOINTS, ("a",)), f"#wp:{sent('a').waitpoint_id}"),
        (Count(1, SIGNALS, ("a",)), f"#sig:{UUID(int=1)}"),
        (Count(1, SOURCES, ("a",)), "#src:user:s"),
        (AllOf((AllOf((Single("b"), Single("a"))),)), "leaf:members[0].members[1]"),
        (AllOf((Count(1, SOURCES, ("a",)),)), "members[0]#src:user:s"),
    ],
)
def test_the_token_of_a_satisfier(condition: Condition, token: str) -> None:
    assert judge(condition, (), sent("a")).satisfied == (token,)


@pytest.mark.parametrize(
    ("condition", "satisfied", "signal", "matched"),
    [
        (Single("a", "go"), (), sent("a"), True),
        (Single("a", "go"), ("leaf:",), sent("a"), True),
        (Single("a", "go"), (), sent("a", "no"), False),
        (OperatorOnly(), (), sent("a"), False),
        (all_of_waitpoints("a", "b"), (), sent("a"), True),
        (all_of_waitpoints("a", "b"), ("leaf:members[0]",), sent("a"), True),
        (all_of_waitpoints("a", "b"), (), sent("c"), False),
        (AllOf((Single("a", "go"),)), (), sent("a", "no"), False),
    ],
)
def test_whether_a_signal_counts_as_matched(
    condition: Condition, satisfied: tuple[str, ...], signal: Arrived, matched: bool
) -> None:
    assert judge(condition, satisfied, signal).matched is matched


@pytest.mark.parametrize("condition", [AllOf(()), OperatorOnly(), TimeoutOnly()])
def test_what_nothing_can_meet(condition: Condition) -> None:
    assert not is_met(condition, ("leaf:", "#sig:x"))
