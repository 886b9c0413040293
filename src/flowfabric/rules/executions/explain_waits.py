"""What an execution waits for before it can be claimed at all: other executions, signals, a time, an operator."""

from __future__ import annotations

import json

from flowfabric.model.explanation import MAX_LISTED, Failure, Looked, Parents, Reason, Wait, Why
from flowfabric.model.flow import stored_edge_policy
from flowfabric.model.waitpoint import AllOf, Condition, Count, CountKind, OperatorOnly, Single
from flowfabric.rules.executions.phrasing import (
    ago,
    clipped,
    coming,
    counted,
    listed,
    quoted,
    span,
    tail,
)
from flowfabric.rules.executions.quarantine import QUARANTINED
from flowfabric.rules.waits import conditions

_TIMES = {
    "waiting_for_delay": "it was told to wait for a time",
    "waiting_for_retry_backoff": "its last try failed, and it pauses before the next",
    "waiting_for_resume_delay": "it was resumed, and pauses before it goes on",
}
_COUNTED = {
    CountKind.DISTINCT_WAITPOINTS: "waitpoint",
    CountKind.DISTINCT_SIGNALS: "signal",
    CountKind.DISTINCT_SOURCES: "source",
}
THEN = {
    "fail": "fails",
    "cancel": "is cancelled",
    "expire": "expires",
    "auto_resume": "goes on",
    "auto_resume_with_timeout_signal": "goes on",
    "escalate": "waits for an operator",
}
_ASKED = {
    "waiting_for_approval": "an approval",
    "waiting_for_callback": "a callback",
    "waiting_for_tool_result": "the result of a tool",
    "waiting_for_budget": "its budget, by its own choice",
    "paused_by_operator": "an operator",
    "paused_by_policy": "a policy to let it go",
}


# ---- a time


def delayed(looked: Looked) -> Reason:
    execution, now = looked.execution, looked.now_ms
    until = execution.delay_until_ms
    if until is not None and until > now:
        when = f"its time comes{coming(now, until)}"
        hint = "wait"
    else:
        when = "its time has come, and it is about to be let go"
        hint = "nothing, if some process runs the loops"
    return Reason(
        Why(execution.blocking_reason),
        f"{_TIMES[execution.blocking_reason]}; {when}{_after_failure(looked)}",
        hint,
        execution.last_transition_at,
        until,
        last_failure(looked),
    )


def _after_failure(looked: Looked) -> str:
    failure = last_failure(looked)
    return "" if failure is None else f". The last failure{tail(failure.message)}"


def last_failure(looked: Looked) -> Failure | None:
    execution, attempt = looked.execution, looked.attempt
    if (
        execution.blocking_reason != "waiting_for_retry_backoff"
        or execution.last_failure_message is None
    ):
        return None
    category = "" if attempt is None else clipped(attempt.failure_category)
    return Failure(
        clipped(execution.last_failure_message),
        category,
        execution.attempt_index,
        execution.retry_count,
    )


# ---- other executions


def parents(looked: Looked) -> Reason:
    execution, group = looked.execution, looked.group
    if group is None:
        says = "it waits for other executions; none is recorded"
        return Reason(
            Why.WAITING_FOR_CHILDREN,
            says,
            "apply_dependency, or cancel it",
            execution.last_transition_at,
        )
    policy = stored_edge_policy(group.policy)
    needed = {"any_of": 1, "quorum": policy.k}.get(policy.kind, group.total)
    seen = looked.parents[:MAX_LISTED]
    more = max(group.running_count - len(seen), 0)
    facts = Parents(
        policy.kind,
        needed,
        group.total,
        group.success_count,
        group.fail_count + group.skip_count,
        seen,
        more,
    )
    named = [f"{p.execution_id} ({clipped(p.execution_kind)}, {p.public_state})" for p in seen]
    if named or more:
        says = f"it waits for {_wanted(facts)}; unfinished: {listed(named, more) if named else counted(more, 'parent')}"
        hint = f"flowfabric why '{seen[0].execution_id}'" if seen else "flowfabric flow show"
    else:
        says = "all its parents have ended, and it is about to be let go"
        hint = "nothing, if some process runs the loops"
    return Reason(Why.WAITING_FOR_CHILDREN, says, hint, execution.last_transition_at, facts=facts)


def _wanted(facts: Parents) -> str:
    done = f"{facts.succeeded:,} succeeded so far" + (
        f", {facts.failed:,} did not" if facts.failed else ""
    )
    match facts.policy:
        case "any_of":
            return f"any one of {counted(facts.total, 'parent')} to succeed ({done})"
        case "quorum":
            return f"{facts.needed:,} of {counted(facts.total, 'parent')} to succeed ({done})"
        case _:
            return f"all {counted(facts.total, 'parent')} to succeed ({done})"


# ---- signals


def suspended(looked: Looked) -> Reason:
    execution, wait, now = looked.execution, looked.suspension, looked.now_ms
    code = Why(execution.blocking_reason)
    what = _ASKED.get(execution.blocking_reason, "a signal")
    if wait is None:
        return Reason(
            code,
            f"it waits for {what}",
            "await engine.resume_execution(...)",
            execution.last_transition_at,
        )
    needs = still_needed(conditions.decode(wait.condition), tuple(json.loads(wait.satisfied_set)))
    then = (
        THEN.get(wait.timeout_behavior or "fail", THEN["fail"])
        if wait.timeout_at_ms is not None
        else ""
    )
    says = f"it waits for {what}, asked{ago(now, wait.suspended_at_ms)}; still needed: {listed(needs) or 'nothing'}"
    if wait.timeout_at_ms is not None:
        left = wait.timeout_at_ms - now
        says += f"; it {then}" + (
            f" in {span(left)}" if left > 0 else " any moment, its time is over"
        )
    asked = looked.waitpoints[:MAX_LISTED]
    facts = Wait(wait.reason_code, tuple(needs[:MAX_LISTED]), asked, wait.timeout_at_ms, then)
    return Reason(code, says, _answer(looked), wait.suspended_at_ms, wait.timeout_at_ms, facts)


def _answer(looked: Looked) -> str:
    if not looked.waitpoints:
        return f'await engine.resume_execution("{looked.execution.id}")'
    asked = looked.waitpoints[0]
    names = [name for name in asked.signal_names if not name.startswith("__")]
    named = f" --name '{clipped(names[0])}'" if names else ""
    return f"flowfabric signal '{looked.execution.id}' {asked.waitpoint_id} URL{named}"


def still_needed(condition: Condition, satisfied: tuple[str, ...], path: str = "") -> list[str]:
    """What has not arrived yet, part by part."""
    if conditions.is_met(condition, satisfied, path):
        return []
    match condition:
        case Single(waitpoint_key=key, name=name):
            return [f"{_signal(name)} on {quoted([key])}"]
        case Count(n=n, count_kind=kind, waitpoints=keys, name=name):
            missing = n - sum(token.startswith(f"{path}#") for token in satisfied)
            one = _COUNTED[kind]
            return [
                f"{_signal(name)} from {counted(missing, f'more {one}')} (of {n:,}) on {quoted(keys)}"
            ]
        case AllOf(members=members):
            inside = [
                f"{path}.members[{at}]" if path else f"members[{at}]" for at in range(len(members))
            ]
            return [
                need
                for m, p in zip(members, inside, strict=True)
                for need in still_needed(m, satisfied, p)
            ]
        case OperatorOnly():
            return ["an operator's decision"]
    return ["its time to come"]


def _signal(name: str | None) -> str:
    return "any signal" if name is None else f"a signal `{clipped(name)}`"


# ---- an operator


def held_back(looked: Looked) -> Reason:
    execution = looked.execution
    since, why = execution.last_transition_at, tail(execution.blocking_detail)
    code = Why(execution.blocking_reason)
    unblock = f'await engine.unblock_execution("{execution.id}")'
    if code is Why.PAUSED_BY_FLOW_CANCEL:
        return Reason(
            code,
            f"its flow was cancelled before it began, so it will not run{why}",
            "nothing to be done",
            since,
        )
    if execution.blocking_detail.startswith(QUARANTINED):
        repair = "repair the row in the database, or cancel it"
        return Reason(
            code,
            f"it is held back, since{ago(looked.now_ms, since)}{why}",
            f"{repair}; then {unblock}",
            since,
        )
    who = "an operator" if code is Why.PAUSED_BY_OPERATOR else "a policy of its lane"
    return Reason(
        code, f"{who} holds it back, since{ago(looked.now_ms, since)}{why}", unblock, since
    )
