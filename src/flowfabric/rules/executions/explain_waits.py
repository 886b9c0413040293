"""What an execution waits for before it is claimable: a time, executions, signals, operators."""

from __future__ import annotations

import json
import shlex

from flowfabric.model.explanation import MAX_LISTED, Failure, Looked, Parents, Reason, Wait, Why
from flowfabric.model.flow import stored_edge_policy
from flowfabric.model.waitpoint import AllOf, Condition, Count, CountKind, OperatorOnly, Single
from flowfabric.rules.executions import phrasing as say
from flowfabric.rules.executions.quarantine import QUARANTINED
from flowfabric.rules.waits import conditions

_TIMES = {
    "waiting_for_delay": "it is delayed",
    "waiting_for_retry_backoff": "its last attempt failed, and the next one is delayed",
    "waiting_for_resume_delay": "it was resumed with a delay",
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
    "auto_resume": "resumes",
    "auto_resume_with_timeout_signal": "resumes",
    "escalate": "waits for an operator",
}
_ASKED = {
    "waiting_for_approval": "an approval",
    "waiting_for_callback": "a callback",
    "waiting_for_tool_result": "the result of a tool",
    "waiting_for_budget": "its budget, as its task requested",
    "paused_by_operator": "an operator",
    "paused_by_policy": "a policy to resume it",
}


def delayed(looked: Looked) -> Reason:
    execution, now = looked.execution, looked.now_ms
    until, failure = execution.delay_until_ms, last_failure(looked)
    says, hint = "its delay is over, and it is about to become claimable", say.NOTHING_TO_DO
    if until is not None and until > now:
        says, hint = f"its delay ends{say.coming(now, until)}", "wait"
    if failure is not None:
        says += f". The last failure{say.tail(failure.message)}"
    return Reason(
        Why(execution.blocking_reason),
        f"{_TIMES[execution.blocking_reason]}; {says}",
        hint,
        execution.last_transition_at,
        until,
        failure,
    )


def last_failure(looked: Looked) -> Failure | None:
    execution, attempt = looked.execution, looked.attempt
    if (
        execution.blocking_reason != "waiting_for_retry_backoff"
        or execution.last_failure_message is None
    ):
        return None
    category = "" if attempt is None else say.clipped(attempt.failure_category)
    return Failure(
        say.clipped(execution.last_failure_message),
        category,
        execution.attempt_index,
        execution.retry_count,
    )


def parents(looked: Looked) -> Reason:
    execution, group = looked.execution, looked.group
    code, since = Why.WAITING_FOR_CHILDREN, execution.last_transition_at
    if group is None:
        says = "it waits for other executions; none is recorded"
        return Reason(code, says, "apply_dependency, or cancel it", since)
    policy = stored_edge_policy(group.policy)
    needed = {"any_of": 1, "quorum": policy.k}.get(policy.kind, group.total)
    seen = looked.parents[:MAX_LISTED]
    more = max(group.running_count - len(seen), 0)
    lost = group.fail_count + group.skip_count
    facts = Parents(policy.kind, needed, group.total, group.success_count, lost, seen, more)
    named = [f"{p.execution_id} ({say.clipped(p.execution_kind)}, {p.public_state})" for p in seen]
    if named or more:
        unfinished = say.listed(named, more) if named else say.counted(more, "parent")
        says = f"it waits for {_wanted(facts)}; unfinished: {unfinished}"
        hint = f"flowfabric why {seen[0].execution_id.uuid}" if seen else "flowfabric flow show"
    else:
        says = "all its parents have ended, and it is about to be unblocked"
        hint = say.NOTHING_TO_DO
    return Reason(code, says, hint, since, facts=facts)


def _wanted(facts: Parents) -> str:
    parents = say.counted(facts.total, "parent")
    wanted = {"any_of": f"any one of {parents}", "quorum": f"{facts.needed:,} of {parents}"}
    failed = f", {facts.failed:,} did not" if facts.failed else ""
    done = f"{facts.succeeded:,} succeeded so far{failed}"
    return f"{wanted.get(facts.policy, f'all {parents}')} to succeed ({done})"


def suspended(looked: Looked) -> Reason:
    execution, wait, now = looked.execution, looked.suspension, looked.now_ms
    code = Why(execution.blocking_reason)
    what = _ASKED.get(execution.blocking_reason, "a signal")
    if wait is None:
        hint = f"flowfabric cancel {execution.id.uuid}"
        return Reason(code, f"it waits for {what}", hint, execution.last_transition_at)
    needs = still_needed(conditions.decode(wait.condition), tuple(json.loads(wait.satisfied_set)))
    says = f"it waits for {what}, requested{say.ago(now, wait.suspended_at_ms)}"
    says += f"; still needed: {say.listed(needs) or 'nothing'}"
    then, until = "", wait.timeout_at_ms
    if until is not None:
        then = THEN.get(wait.timeout_behavior or "fail", THEN["fail"])
        says += (
            f"; it {then}{say.coming(now, until) if until > now else ' now: its timeout is over'}"
        )
    asked = looked.waitpoints[:MAX_LISTED]
    facts = Wait(wait.reason_code, tuple(needs[:MAX_LISTED]), asked, until, then)
    return Reason(code, says, _answer(looked), wait.suspended_at_ms, until, facts)


def _answer(looked: Looked) -> str:
    if not looked.waitpoints:
        return f"flowfabric cancel {looked.execution.id.uuid}"
    asked = looked.waitpoints[0]
    names = [name for name in asked.signal_names if not name.startswith("__")]
    named = f" --name {shlex.quote(say.clipped(names[0]))}" if names else ""
    return f"flowfabric signal {looked.execution.id.uuid} {asked.waitpoint_id}{named}"


def still_needed(condition: Condition, satisfied: tuple[str, ...], path: str = "") -> list[str]:
    """The unmet parts of a condition."""
    if conditions.is_met(condition, satisfied, path):
        return []
    match condition:
        case Single(waitpoint_key=key, name=name):
            return [f"{_signal(name)} on {say.quoted([key])}"]
        case Count(n=n, count_kind=kind, waitpoints=keys, name=name):
            missing = n - sum(token.startswith(f"{path}#") for token in satisfied)
            one = _COUNTED[kind]
            more = say.counted(missing, f"more {one}")
            return [f"{_signal(name)} from {more} (of {n:,}) on {say.quoted(keys)}"]
        case AllOf(members=members):
            prefix = f"{path}." if path else ""
            return [
                need
                for at, member in enumerate(members)
                for need in still_needed(member, satisfied, f"{prefix}members[{at}]")
            ]
        case OperatorOnly():
            return ["an operator's decision"]
    return ["its timeout"]


def _signal(name: str | None) -> str:
    return "any signal" if name is None else f"a signal `{say.clipped(name)}`"


def blocked(looked: Looked) -> Reason:
    execution = looked.execution
    since, why = execution.last_transition_at, say.tail(execution.blocking_detail)
    code, hint = Why(execution.blocking_reason), f"flowfabric release {execution.id.uuid}"
    if code is Why.PAUSED_BY_FLOW_CANCEL:
        says = f"its flow was cancelled before it started, so it will not run{why}"
        return Reason(code, says, "nothing to do", since)
    who = "an operator" if code is Why.PAUSED_BY_OPERATOR else "a policy of its lane"
    if execution.blocking_detail.startswith(QUARANTINED):
        who, hint = "the engine", f"repair the row in the database, or cancel it; then {hint}"
    says = f"{who} blocks it, since{say.ago(looked.now_ms, since)}{why}"
    return Reason(code, says, hint, since)
