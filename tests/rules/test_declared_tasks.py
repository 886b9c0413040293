"""Which declaration of a task is stored, and what a submission by its name creates."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from msgspec import structs

from flowfabric.errors import Conflict, ValidationError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Created, Duplicate
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy, RoutingRequirements
from flowfabric.model.state import PublicState
from flowfabric.model.task import (
    SEEN_EVERY_MS,
    RegisterTasksArgs,
    Submission,
    TaskDeclaration,
    TaskMark,
    TasksRegistered,
)
from flowfabric.rules.decision import Commit, Return
from flowfabric.rules.waits.schema_form import MAX_PARTS, flaw
from flowfabric.rules.workers import task_submission as submission
from flowfabric.rules.workers import tasks as rules

NOW = 1_000_000
QUOTA, OTHER = UUID(int=1), UUID(int=2)


def task(name: str = "t", *, quota: UUID | None = None, **said: Any) -> TaskDeclaration:
    policy = ExecutionPolicy(quota_policy_id=None if quota is None else str(quota))
    return TaskDeclaration(name=name, policy=policy, **said)


def mark(of: TaskDeclaration, at: int = NOW, **said: Any) -> TaskMark:
    stored = rules.declared(of)
    made = TaskMark(of.name, stored.fingerprint, of.version, stored.quota, at, at, 7)
    return structs.replace(made, **said)


def decided(
    wanted: TaskDeclaration, stored: TaskMark | None, *, now: int = NOW, at: int | None = None
) -> tuple[str, TasksRegistered]:
    """The form that is committed, empty for none, and the answer."""
    known = {} if stored is None else {stored.name: stored}
    args = RegisterTasksArgs(tasks=(wanted,), declared_at_ms=at)
    found = rules.register(known, [rules.declared(wanted)], args, now)
    if isinstance(found, Return):
        return "", found.result
    assert isinstance(found, Commit) and isinstance(found.result, TasksRegistered)
    return found.plan.form.name, found.result


@pytest.mark.parametrize(
    ("before", "after", "form"),
    [
        (None, None, "declare_task"),
        (None, QUOTA, "declare_limited_task"),
        (QUOTA, QUOTA, "redeclare_task"),
        (QUOTA, None, "redeclare_task_unlimited"),
        (QUOTA, OTHER, "redeclare_task_limited"),
    ],
)
def test_the_scope_of_the_quota_follows_the_declaration(
    before: UUID | None, after: UUID | None, form: str
) -> None:
    stored = None if form.startswith("declare") else mark(task(quota=before), NOW - 1)
    wanted = task(quota=after, description="new")
    assert decided(wanted, stored)[0] == form


def test_an_unchanged_declaration_writes_only_a_rare_sign_of_life() -> None:
    same = task()
    late = NOW + SEEN_EVERY_MS
    assert decided(same, mark(same), now=late - 1) == ("", TasksRegistered(late - 1))
    assert decided(same, mark(same), now=late) == ("see_task", TasksRegistered(late))


@pytest.mark.parametrize(
    ("version", "at", "wins"),
    [(0, NOW + 1, True), (0, NOW, False), (0, NOW - 1, False), (1, NOW - 1, True)],
)
def test_the_higher_version_wins_and_then_the_later_start(
    version: int, at: int, wins: bool
) -> None:
    changed = task(version=version, description="other")
    form, answer = decided(changed, mark(task()), now=NOW + 5, at=at)
    assert (form, answer.written, answer.newer) == (
        ("redeclare_task", ("t",), ()) if wins else ("", (), ("t",))
    )


def test_a_lower_version_stays_out_however_late_it_starts() -> None:
    assert decided(task(), mark(task(version=2)), now=NOW + 10**9)[1].newer == ("t",)


def test_a_first_registration_replaces_also_within_a_millisecond() -> None:
    form, answer = decided(task(description="other"), mark(task(), NOW + 5))
    assert (form, answer.declared_at_ms) == ("redeclare_task", NOW + 6)


def test_a_start_in_the_future_counts_as_now() -> None:
    assert decided(task(), None, at=NOW * 9)[1].declared_at_ms == NOW


def test_the_fingerprint_is_of_the_whole_declaration_and_of_no_order() -> None:
    one = task(arguments={"type": "object", "properties": {"a": {}, "b": {}}})
    other = task(arguments={"properties": {"b": {}, "a": {}}, "type": "object"})
    assert rules.declared(one).fingerprint == rules.declared(other).fingerprint
    assert rules.declared(one).fingerprint != rules.declared(task(lane_id="x")).fingerprint


# ---- submissions


def created(of: TaskDeclaration, **said: Any) -> Any:
    ident = ExecutionId.of(0, uuid4())
    wanted = Submission(execution_id=ident, namespace="ns", payload=b"{}", **said)
    return submission.creation(of, wanted)


FULL = TaskDeclaration(
    name="mail",
    lane_id="mails",
    policy=ExecutionPolicy(
        priority=5,
        retry_policy=RetryPolicy(max_retries=9),
        quota_policy_id=str(QUOTA),
        routing_requirements=RoutingRequirements(required_capabilities=("task:mail",)),
    ),
)


def test_a_plain_submission_is_the_declaration() -> None:
    made = created(FULL)
    assert (made.lane_id, made.priority, made.execution_kind) == ("mails", 5, "mail")
    assert (made.policy, made.idempotency_key) == (FULL.policy, None)


def test_a_submission_overrides_and_adds() -> None:
    made = created(FULL, lane_id="x", priority=0, requires=("gpu",), key="k", key_ttl_ms=7)
    assert (made.lane_id, made.priority, made.idempotency_key) == ("x", 0, "mail:k")
    assert made.policy == structs.replace(
        FULL.policy,
        priority=0,
        dedup_window_ms=7,
        routing_requirements=RoutingRequirements(required_capabilities=("gpu", "task:mail")),
    )


def test_a_forgotten_task_takes_its_limit_along() -> None:
    assert rules.forget(None, "ns") == Return(False)
    found = rules.forget(mark(task(quota=QUOTA)), "ns")
    assert isinstance(found, Commit) and found.result is True
    given = dict(zip(found.plan.form.args, found.plan.values, strict=True))
    assert given == {
        "namespace": "ns",
        "name": "t",
        "version": 7,
        "old_quota_policy_id": QUOTA,
    }


@pytest.mark.parametrize(
    ("stored", "wanted", "attached"),
    [
        (None, None, 0),
        (None, QUOTA, 1),
        (QUOTA, QUOTA, 0),
        (OTHER, QUOTA, 1),
        (QUOTA, None, 0),
    ],
)
def test_only_limits_that_are_not_attached_count_as_new(
    stored: UUID | None, wanted: UUID | None, attached: int
) -> None:
    marks = {"t": mark(task(quota=stored))}
    assert rules.new_limits(marks, [rules.declared(task(quota=wanted))]) == attached
    assert rules.new_limits({}, [rules.declared(task(quota=QUOTA))]) == 1


def opened(of: TaskDeclaration, payload: bytes = b'{"to":"a"}', **said: Any) -> Any:
    spans = {name: said.pop(name, None) for name in ("delay_ms", "deadline_ms")}
    ident = ExecutionId.of(0, uuid4())
    wanted = Submission(execution_id=ident, namespace="ns", payload=payload, **said)
    return submission.open_creation(of, wanted, spans["delay_ms"], spans["deadline_ms"], NOW)


def test_an_open_submission_is_checked_and_dated() -> None:
    made = opened(structs.replace(FULL, arguments=ARGUMENTS))
    assert (made.delay_until, made.execution_deadline_at, made.key_digest) == (None, None, None)
    later = opened(FULL, delay_ms=5, deadline_ms=9)
    assert (later.delay_until, later.execution_deadline_at) == (NOW + 5, NOW + 9)
    assert opened(FULL, delay_ms=5).execution_deadline_at is None
    assert opened(FULL, deadline_ms=9).delay_until is None
    with pytest.raises(ValidationError, match="arguments"):
        opened(structs.replace(FULL, arguments=ARGUMENTS), b'{"to":1}')


def test_the_key_of_an_open_submission_has_a_digest() -> None:
    made = opened(FULL, key="k")
    assert made.key_digest == submission.key_digest(FULL, {"to": "a"})
    with pytest.raises(ValidationError, match=r"key_ttl: .* give a key as well"):
        opened(FULL, key_ttl_ms=5)


def test_a_key_of_other_arguments_is_a_conflict() -> None:
    made = opened(FULL, key="k")
    ident = made.execution_id
    submission.check_same(Created(ident, PublicState.WAITING), made, "k")
    submission.check_same(Duplicate(ident), made, "k")
    submission.check_same(Duplicate(ident, made.key_digest), made, "k")
    with pytest.raises(Conflict, match=f"belongs to run {ident.uuid}"):
        submission.check_same(Duplicate(ident, "other"), made, "k")


ARGUMENTS = {
    "type": "object",
    "properties": {
        "to": {"type": "string"},
        "size": {"type": "number", "default": 1},
        "options": {"anyOf": [{"$ref": "#/$defs/O"}, {"type": "null"}], "default": None},
    },
    "required": ["to"],
    "additionalProperties": False,
    "$defs": {"O": {"type": "object", "properties": {"é": {"type": "integer"}}}},
}
TYPED = TaskDeclaration(name="mail", arguments=ARGUMENTS)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ("{}", "task mail: arguments.to: required"),
        ('{"to":1}', "task mail: arguments.to: string is expected, got 1"),
        ('{"to":"a","x":1}', "task mail: arguments.x: unknown name; accepted: options, size, to"),
        ('{"to":"a","options":{"é":"ü"}}', "arguments.options.é: integer is expected, got"),
        ('{"$results":{}}', "task mail: arguments.$results: a name that begins with $"),
        ("[1]", "task mail: arguments: an object by name"),
        ("{", "task mail: arguments: JSON is accepted"),
        ("[" * 60_000, "task mail: arguments: JSON is accepted"),
    ],
)
def test_an_error_names_the_argument(sent: str, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        submission.checked_arguments(TYPED, sent.encode())
    assert said in caught.value.detail


def test_without_a_schema_any_object_is_accepted_but_no_reserved_name() -> None:
    free = TaskDeclaration(name="mail")
    assert submission.checked_arguments(free, b'{"a":[1]}') == {"a": [1]}
    with pytest.raises(ValidationError, match=r"\$results"):
        submission.checked_arguments(free, b'{"$results":{}}')


def test_arguments_of_an_app_with_a_codec_are_refused() -> None:
    submission.check_open(TYPED)
    with pytest.raises(ValidationError, match="same codec"):
        submission.check_open(structs.replace(TYPED, sealed=True))


def test_a_digest_ignores_order_and_defaults() -> None:
    def digest(text: str) -> str:
        return submission.key_digest(TYPED, json.loads(text))

    plain = digest('{"to":"a"}')
    assert plain == digest('{"size":1.0,"to":"a","options":null}') == digest('{"to":"a","size":1}')
    assert plain != digest('{"to":"b"}')
    assert digest('{"to":"a","options":{"é":1,"b":2}}') == digest(
        '{"options":{"b":2,"é":1},"to":"a"}'
    )


def test_an_unknown_task_is_answered_with_a_bounded_list() -> None:
    text = submission.unknown_task("x" * 300, "ns", [f"t{n}" for n in range(5_000)])
    assert "t19, and more" in text and "t20" not in text and len(text) < 500
    assert "registered: none" in submission.unknown_task("x", "ns", [])


# ---- schemas


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ([], "an object"),
        ({"type": "text"}, "/type"),
        ({"type": [1]}, "/type"),
        ({"properties": []}, "/properties: schemas by name"),
        ({"properties": {"a": {"minimum": "1"}}}, "/properties/a/minimum: a number"),
        ({"items": 1}, "/items: a schema"),
        ({"anyOf": {}}, "/anyOf: a list"),
        ({"anyOf": [1]}, "/anyOf/0: a schema"),
        ({"required": "a"}, "/required"),
        ({"enum": 1}, "/enum"),
        ({"pattern": "("}, "/pattern"),
        ({"pattern": "a" * 2_000}, "/pattern"),
        ({"multipleOf": 0}, "/multipleOf"),
        ({"pattern": 1}, "/pattern"),
        ({"maxItems": -1}, "/maxItems"),
        ({"$ref": "#/$defs/A"}, "'A' is not in $defs"),
        ({"$ref": "http://example.org/x"}, "/$ref: the form"),
        ({"$ref": 1}, "/$ref: the form"),
        ({"$defs": 1, "$ref": "#/$defs/A"}, "$defs"),
        ({"anyOf": [{}] * MAX_PARTS}, "too many parts"),
    ],
)
def test_a_schema_that_cannot_be_applied_is_named(schema: object, said: str) -> None:
    assert said in str(flaw(schema))


def test_a_deep_schema_is_refused() -> None:
    deep: Any = {}
    for _ in range(200):
        deep = {"items": deep}
    assert "too deeply" in str(flaw(deep))


def test_what_msgspec_and_others_generate_is_accepted() -> None:
    assert flaw(msgspec.json.schema(TasksRegistered)) is None
    assert flaw({"type": "object", "title": "x", "discriminator": {"a": 1}, "items": True}) is None
    assert flaw(ARGUMENTS) is None and flaw({"pattern": "^a+$"}) is None
