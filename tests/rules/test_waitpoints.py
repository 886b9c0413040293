from __future__ import annotations

import importlib
import pkgutil
from typing import Any
from uuid import UUID

import pytest
from msgspec import Struct, structs

from flowfabric import model
from flowfabric.codec.token import sealed
from flowfabric.engine.waits.suspend_replay import StoredAnswer, StoredDetails
from flowfabric.model.api_token import ApiToken, IssuedToken, Role
from flowfabric.model.lease import Handle, HandleKind
from flowfabric.model.signing_key import HmacKey
from flowfabric.model.waitpoint import (
    BoundWaitpoint,
    ConditionMet,
    DeliverSignalArgs,
    PendingWaitpoint,
    Suspended,
    Suspension,
    SuspensionDetails,
    Waitpoint,
)
from flowfabric.plan import Applied, Refused
from flowfabric.rules.decision import Commit
from flowfabric.rules.waits.signals import Delivery
from flowfabric.rules.waits.signing_keys import Rotation, rotate
from flowfabric.rules.waits.waitpoints import CREATE_WAITPOINT, close, consume, create_waitpoint

from .factory import (
    IDENT,
    NOW,
    answer,
    attempt,
    commit,
    commit_all,
    execution,
    handle,
    refusal,
    seeded,
    stored,
    told,
)
from .wait_factory import (
    SECOND,
    SUSPENSION_ID,
    WAITPOINT_ID,
    around,
    deliver_args,
    one,
    rows_of,
    suspend_args,
    suspend_plans,
    suspended,
    suspension,
    waitpoint,
)

# ---- created ahead


def test_a_waitpoint_created_ahead() -> None:
    of = execution("RUNNING")
    store = seeded(of, attempt(of))
    plan = create_waitpoint(handle(of), WAITPOINT_ID, "a", "k1:x", "k1", NOW, NOW + 5)
    assert isinstance(commit(store, plan), Applied)
    row = one(store, Waitpoint)
    assert (row.state, row.waitpoint_key, row.token_digest, row.token_kid) == (
        "pending",
        "a",
        sealed("k1:x"),
        "k1",
    )
    assert (row.created_at_ms, row.expires_at_ms, row.activated_at_ms, row.suspension_id) == (
        NOW,
        NOW + 5,
        None,
        None,
    )
    assert (row.execution_id, row.attempt_index, row.required_signal_names, row.signal_count) == (
        IDENT.uuid,
        0,
        "[]",
        0,
    )
    after = stored(store)
    assert (after.version, after.lease_epoch, after.current_lease_id) == (
        of.version,
        of.lease_epoch,
        of.current_lease_id,
    )
    assert told(store) == ([], [], [])
    assert [wake.topic for wake in CREATE_WAITPOINT.wakes] == ["waitpoint_expiry"]


def test_the_same_key_twice_gives_two_waitpoints() -> None:
    of = execution("RUNNING")
    store = seeded(of, attempt(of))
    for ident in (WAITPOINT_ID, SECOND):
        assert isinstance(
            commit(store, create_waitpoint(handle(of), ident, "a", "k1:x", "k1", NOW, NOW)), Applied
        )
    assert {row.waitpoint_id for row in rows_of(store, Waitpoint)} == {WAITPOINT_ID, SECOND}


@pytest.mark.parametrize("name", ["READY", "LOST", "SUSPENDED", "ENDED"])
def test_only_a_holder_creates_waitpoints(name: str) -> None:
    of = execution(name)
    store = seeded(of)
    assert isinstance(
        commit(store, create_waitpoint(handle(of), WAITPOINT_ID, "a", "k1:x", "k1", NOW, NOW)),
        Refused,
    )
    assert rows_of(store, Waitpoint) == []


# ---- enough had arrived


def test_a_waitpoint_that_was_enough_is_closed_and_nothing_else_changes() -> None:
    of, pending = execution("RUNNING"), waitpoint(state="pending")
    store = seeded(of, attempt(of), pending)
    assert isinstance(commit_all(store, consume(handle(of), pending, NOW - 2)), Applied)
    row = one(store, Waitpoint)
    assert (row.state, row.close_reason, row.closed_at_ms, row.satisfied_at_ms) == (
        "closed",
        "resumed",
        NOW - 2,
        NOW - 2,
    )
    assert row.version == pending.version + 1
    assert stored(store) == structs.replace(of, last_mutation_at=NOW)
    assert rows_of(store, Suspension) == []
    assert told(store) == ([], [], [])
    assert isinstance(commit_all(store, consume(handle(of), pending, NOW)), Refused)


@pytest.mark.parametrize("name", ["READY", "SUSPENDED", "ENDED", "LOST"])
def test_only_a_holder_uses_up_what_had_arrived(name: str) -> None:
    of, pending = execution(name), waitpoint(state="pending")
    store = seeded(of, attempt(of), pending)
    assert commit_all(store, consume(handle(execution("RUNNING")), pending, NOW)) == Refused(0, 0)
    assert one(store, Waitpoint) == pending


# ---- closed


def test_closing_what_is_not_there() -> None:
    assert refusal(close(None, IDENT.uuid, "r")) == "waitpoint_not_found"
    assert refusal(close(waitpoint(), UUID(int=9), "r")) == "waitpoint_not_found"
    assert refusal(close(waitpoint(state="closed"), UUID(int=9), "r")) == "waitpoint_not_found"


@pytest.mark.parametrize("state", ["closed", "expired"])
def test_closing_what_is_closed(state: str) -> None:
    assert answer(close(waitpoint(state=state), IDENT.uuid, "r")) == "already_closed"


def test_closing_what_is_in_no_known_state() -> None:
    assert refusal(close(waitpoint(state="elsewhere"), IDENT.uuid, "r")) == "waitpoint_not_open"


@pytest.mark.parametrize("state", ["pending", "active"])
@pytest.mark.parametrize("reason", ["proactive_close", "never_committed"])
def test_closing_an_open_waitpoint_leaves_the_suspension_open(state: str, reason: str) -> None:
    rows = (suspended(), suspension(), waitpoint(state=state))
    decision = close(rows[2], IDENT.uuid, reason)
    assert isinstance(decision, Commit) and decision.result == "closed"
    store = seeded(*rows)
    assert isinstance(commit_all(store, [*decision.first, decision.plan]), Applied)
    row = one(store, Waitpoint)
    assert (row.state, row.close_reason, row.closed_at_ms, row.satisfied_at_ms) == (
        "closed",
        reason,
        NOW,
        None,
    )
    assert one(store, Suspension) == rows[1]
    looked_at = (
        {"version": rows[0].version + 1, "last_mutation_at": NOW} if state == "active" else {}
    )
    assert stored(store) == structs.replace(rows[0], **looked_at)
    assert told(store) == ([], [], [])
    assert isinstance(commit(store, decision.plan), Refused)


def test_which_waitpoint_rows_are_open() -> None:
    assert [
        waitpoint(state=state).is_open for state in ("pending", "active", "closed", "expired")
    ] == [True, True, False, False]
    assert suspension().is_open
    assert not suspension(closed_at_ms=0).is_open


# ---- nothing tells a secret

DIGEST = "5ec2e7" * 10 + "beef"
TOKEN = f"k9:{DIGEST}"
SECRET = b"do not tell " * 3
BOUND = BoundWaitpoint(WAITPOINT_ID, "a", TOKEN)
DETAILS = SuspensionDetails(SUSPENSION_ID, (BOUND, BOUND))
HELD = Handle("sqlite", HandleKind.SUSPENDED, SECRET)
ROW = waitpoint(token_digest=sealed(TOKEN))
SIGNED = HmacKey("k9", NOW, 1, None, SECRET)
ROTATION = rotate((), "k9", SECRET, 0, NOW)
STORED = StoredDetails(WAITPOINT_ID, "a", "k9", sealed(TOKEN), SUSPENSION_ID, [])
TOKEN_INFO = ApiToken(
    token_id=WAITPOINT_ID,
    name="ci",
    roles=[Role.READ],
    namespace=None,
    lanes=None,
    created_at_ms=NOW,
    created_by="ann",
    expires_at_ms=None,
    rotated_at_ms=None,
    former_until_ms=None,
    revoked_at_ms=None,
    last_used_at_ms=None,
)
TELLERS: list[Any] = [
    ROW,
    SIGNED,
    BOUND,
    DETAILS,
    HELD,
    Suspended(DETAILS, HELD),
    ConditionMet(DETAILS),
    PendingWaitpoint(WAITPOINT_ID, TOKEN),
    deliver_args(waitpoint_token=TOKEN),
    around(ROW),
    Delivery(NOW, suspended(), ROW, None, None, 0),
    ROTATION,
    Commit(
        create_waitpoint(handle(execution("RUNNING")), WAITPOINT_ID, "a", TOKEN, "k9", NOW, NOW)
    ),
    suspend_plans(execution("RUNNING"), suspend_args()),
    StoredAnswer("Suspended", STORED, SECRET.hex()),
    STORED,
    IssuedToken(SECRET.hex(), TOKEN_INFO),
]


@pytest.mark.parametrize("teller", TELLERS, ids=lambda teller: type(teller).__name__)
def test_no_text_of_a_struct_contains_a_token_or_a_secret(teller: Any) -> None:
    minted = waitpoint().token_digest.partition(":")[2]
    for text in (repr(teller), str(teller), f"{teller}", f"{[teller]!r}", f"{ {'x': (teller,)} }"):
        assert text
        for hidden in (DIGEST, minted, repr(SECRET), repr(SECRET)[2:-1], SECRET.hex()):
            assert hidden not in text


def test_every_struct_that_holds_a_token_or_a_secret_is_among_those_checked() -> None:
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.iter_modules(model.__path__, f"{model.__name__}.")
    ]
    hidden = {"token", "waitpoint_token", "hmac_token", "secret", "opaque"}
    kinds = {
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Struct)
    }
    holding = {kind for kind in kinds if hidden & set(kind.__struct_fields__)}
    assert holding <= {type(teller) for teller in TELLERS}
    assert {HmacKey, BoundWaitpoint, PendingWaitpoint, DeliverSignalArgs, Handle} <= holding


def test_what_the_redacted_texts_still_say() -> None:
    assert isinstance(ROTATION, Rotation)
    assert repr(ROW) == f"Waitpoint({WAITPOINT_ID}, 'a', active)"
    assert repr(SIGNED) == "HmacKey('k9', active=True)"
    assert repr(BOUND) == f"BoundWaitpoint({WAITPOINT_ID}, 'a')"
    assert repr(PendingWaitpoint(WAITPOINT_ID, TOKEN)) == f"PendingWaitpoint({WAITPOINT_ID})"
    assert repr(deliver_args()) == f"DeliverSignalArgs({IDENT}, {WAITPOINT_ID}, 'go')"
    assert repr(ROTATION.plans) == "[Plan(add_hmac_key)]"


def test_the_first_waitpoint_of_the_details_is_the_primary_one() -> None:
    other = BoundWaitpoint(SECOND, "b", "t")
    details = SuspensionDetails(SUSPENSION_ID, (BOUND, other))
    assert (details.waitpoint_id, details.waitpoint_key, details.waitpoint_token) == (
        WAITPOINT_ID,
        "a",
        TOKEN,
    )
    assert details.additional_waitpoints == (other,)
