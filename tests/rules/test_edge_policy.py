"""Policies of edge groups: as given, as stored, and when they can still be set."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowfabric.model.flow import (
    MAX_QUORUM,
    EdgeGroup,
    EdgePolicy,
    Flow,
    OnSatisfied,
    stored_edge_policy,
)
from flowfabric.plan import Refused
from flowfabric.rules.decision import Commit, Decision
from flowfabric.rules.flows import flows
from flowfabric.rules.flows.flows import GraphSnapshot

from .factory import FLOW_ID, IDENT, NOW, answer, applied, commit, refusal, seeded
from .flow_factory import ALL_OF, ANY_OF, P, flow, group, only, said

CANCEL, RUN = OnSatisfied.CANCEL_REMAINING, OnSatisfied.LET_RUN

# ---- as given and as stored


@pytest.mark.parametrize(
    ("policy", "text", "k", "cancels"),
    [
        (EdgePolicy(), '{"kind":"all_of"}', 0, False),
        (EdgePolicy.all_of(), '{"kind":"all_of"}', 0, False),
        (EdgePolicy.any_of(), '{"kind":"any_of","on_satisfied":"cancel_remaining"}', 1, True),
        (EdgePolicy.any_of(RUN), '{"kind":"any_of","on_satisfied":"let_run"}', 1, False),
        (
            EdgePolicy.quorum(3),
            '{"kind":"quorum","k":3,"on_satisfied":"cancel_remaining"}',
            3,
            True,
        ),
        (
            EdgePolicy.quorum(2, "let_run"),
            '{"kind":"quorum","k":2,"on_satisfied":"let_run"}',
            2,
            False,
        ),
    ],
)
def test_a_policy_is_stored_and_read_back(
    policy: EdgePolicy, text: str, k: int, cancels: bool
) -> None:
    assert (policy.encoded(), policy.k, policy.cancels) == (text, k, cancels)
    assert stored_edge_policy(text) == policy


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", ALL_OF),
        ("{", ALL_OF),
        ("[]", ALL_OF),
        ('"any_of"', ALL_OF),
        ("{}", ALL_OF),
        ('{"kind":"most_of"}', ALL_OF),
        ('{"kind":"all_of","k":3,"on_satisfied":"let_run"}', ALL_OF),
        ('{"kind":"any_of"}', ANY_OF),
        ('{"kind":"any_of","on_satisfied":"whatever"}', ANY_OF),
        ('{"kind":"any_of","k":5,"on_satisfied":"let_run"}', EdgePolicy.any_of(RUN)),
        ('{"kind":"quorum"}', EdgePolicy.quorum(1)),
        ('{"kind":"quorum","k":"two"}', EdgePolicy.quorum(1)),
        ('{"kind":"quorum","k":4,"on_satisfied":null}', EdgePolicy.quorum(4)),
    ],
)
def test_what_is_stored_otherwise_reads_as_the_least_surprising(
    text: str, read: EdgePolicy
) -> None:
    assert stored_edge_policy(text) == read


# ---- what is wrong with one

LOW, HIGH = "quorum k must be >= 1", "quorum k exceeds supported maximum"
UNKNOWN = "unknown EdgeDependencyPolicy variant"
MISSING = "on_satisfied required for any_of/quorum: cancel_remaining | let_run"


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (ALL_OF, None),
        (ANY_OF, None),
        (EdgePolicy.any_of(RUN), None),
        (EdgePolicy.quorum(1), None),
        (EdgePolicy.quorum(MAX_QUORUM), None),
        (EdgePolicy("quorum", 0, "nonsense"), LOW),
        (EdgePolicy("quorum", -1, CANCEL), LOW),
        (EdgePolicy("quorum", True, CANCEL), LOW),
        (EdgePolicy("quorum", 1.5, CANCEL), LOW),  # type: ignore[arg-type]
        (EdgePolicy("quorum", MAX_QUORUM + 1, "nonsense"), HIGH),
        (EdgePolicy("most_of", 0, "nonsense"), UNKNOWN),
        (EdgePolicy("", 1, CANCEL), UNKNOWN),
        (EdgePolicy("any_of", 1, None), MISSING),
        (EdgePolicy("any_of", 1, "nonsense"), MISSING),
        (EdgePolicy("quorum", 2, None), MISSING),
    ],
)
def test_what_is_wrong_with_a_policy(policy: EdgePolicy, problem: str | None) -> None:
    found = flows.check_policy(policy)
    if problem is None:
        assert found is None
    else:
        assert found is not None
        assert (found.code, str(found)) == ("invalid_input", f"invalid_input: {problem}")


# ---- setting one


def setting(policy: EdgePolicy, **around: Any) -> Decision:
    given = {"flow": flow(), **around}
    return flows.set_edge_policy(GraphSnapshot(NOW, P, **given), IDENT, policy)


def test_a_policy_belongs_to_a_flow_without_edges_to_that_member() -> None:
    assert refusal(setting(ANY_OF, flow=None, has_edges=True)) == "flow_not_found"
    fixed = ("invalid_input", "edge_group_policy_already_fixed: dependencies already staged")
    assert said(setting(ANY_OF, has_edges=True)) == fixed
    assert said(setting(ANY_OF, has_edges=True, group=group(ANY_OF))) == fixed


@pytest.mark.parametrize("state", ["open", "cancelled"])
@pytest.mark.parametrize(
    ("policy", "k"), [(ALL_OF, 0), (ANY_OF, 1), (EdgePolicy.quorum(4, RUN), 4)]
)
def test_the_first_policy_makes_the_group(policy: EdgePolicy, k: int, state: str) -> None:
    before = flow(public_flow_state=state)
    decision = setting(policy, flow=before)
    assert isinstance(decision, Commit) and decision.result == "Set"
    store = applied(decision, before)
    made, after = only(store, EdgeGroup), only(store, Flow)
    assert (made.flow_id, made.downstream_eid, made.group_state) == (FLOW_ID, IDENT.uuid, "pending")
    assert (stored_edge_policy(made.policy), made.k_target, made.total) == (policy, k, 0)
    assert (after.graph_revision, after.version) == (before.graph_revision, before.version + 1)


def test_the_same_policy_again_changes_nothing() -> None:
    assert answer(setting(ANY_OF, group=group(ANY_OF))) == "AlreadySet"
    spaced = json.dumps(json.loads(ANY_OF.encoded()), sort_keys=True, indent=1)
    assert answer(setting(ANY_OF, group=group(spaced))) == "AlreadySet"


@pytest.mark.parametrize("old", [ALL_OF, ANY_OF, EdgePolicy.quorum(2), EdgePolicy.quorum(3, RUN)])
def test_another_policy_replaces_it(old: EdgePolicy) -> None:
    before = group(old, 2, success_count=1, fail_count=1, skip_count=1, group_state="satisfied")
    new = EdgePolicy.quorum(3)
    decision = setting(new, group=before)
    assert isinstance(decision, Commit) and decision.result == "Set"
    after = only(applied(decision, flow(), before), EdgeGroup)
    assert (stored_edge_policy(after.policy), after.k_target, after.total, after.group_state) == (
        new,
        3,
        0,
        "pending",
    )
    assert after.version == before.version + 1


@pytest.mark.parametrize("found", [None, group(ALL_OF)])
def test_an_edge_staged_meanwhile_fixes_the_policy(found: EdgeGroup | None) -> None:
    decision = setting(ANY_OF, group=found)
    assert isinstance(decision, Commit)
    store = seeded(flow(version=5, graph_revision=4), found)
    assert isinstance(commit(store, decision.plan), Refused)
