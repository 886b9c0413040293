"""A count with a veto: one veto ends the wait, and other names are refused."""

from __future__ import annotations

from uuid import UUID

from flowfabric.model.waitpoint import AllOf, Count, CountKind, Single
from flowfabric.rules.waits.conditions import (
    Arrived,
    accepted_names,
    decode,
    encode,
    judge,
    required_names,
)

ASK = Count(2, CountKind.DISTINCT_SOURCES, ("go",), "approved", "rejected")


def signal(name: str, who: str, link: str = "") -> Arrived:
    return Arrived(UUID(int=1), "go", UUID(int=2), name, "link", who, link)


def test_a_veto_is_kept_and_named() -> None:
    assert decode(encode(ASK)) == ASK
    assert required_names(ASK, "go") == accepted_names(ASK, "go") == ["approved", "rejected"]
    assert accepted_names(ASK, "other") == accepted_names(Single("go", "yes"), "go") == []


def test_one_veto_ends_the_whole_wait() -> None:
    first = judge(ASK, (), signal("approved", "ann"))
    assert not first.met
    assert judge(ASK, first.satisfied, signal("rejected", "bob")).met
    both = AllOf((ASK, Single("other")))
    assert judge(both, (), signal("rejected", "bob")).met
    assert not judge(both, (), signal("approved", "bob")).met


def test_a_link_counts_once() -> None:
    first = judge(ASK, (), signal("approved", "ann", "1"))
    again = judge(ASK, first.satisfied, signal("approved", "bob", "1"))
    assert (again.met, again.effect) == (False, "appended_to_waitpoint_duplicate")
    assert judge(ASK, first.satisfied, signal("approved", "ann", "2")).met
