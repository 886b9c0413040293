from __future__ import annotations

import pytest

from flowfabric.model.lease import LeaseRenewal
from flowfabric.plan import Applied
from flowfabric.rules.leases import renewal

from .factory import (
    NOW,
    TTL,
    attempt,
    commit,
    execution,
    handle,
    seeded,
    stored,
    stored_attempt,
    told,
)

RUNNING = execution("RUNNING", attempt_timeout_at_ms=NOW + 40)
TRIED = attempt(RUNNING)
HELD = handle(RUNNING)


@pytest.mark.parametrize("ttl", [TTL, 5, 60_000])
@pytest.mark.parametrize("said", [1, 86_400_000])
def test_renewing_holds_the_lease_for_as_long_as_it_was_granted_for(ttl: int, said: int) -> None:
    act = renewal.renew(handle(RUNNING, lease_ttl_ms=said))
    store = seeded(RUNNING, TRIED)
    assert isinstance(commit(store, renewal.renew_for(handle(RUNNING), ttl)), Applied)
    done = commit(store, act.plan)
    assert isinstance(done, Applied)
    assert act.result(done) == LeaseRenewal(NOW + ttl, RUNNING.lease_epoch)
    after = stored(store)
    assert (
        after.lease_expires_at_ms,
        after.lease_last_renewed_at,
        after.lease_renewal_deadline,
    ) == (
        NOW + ttl,
        NOW,
        NOW + ttl * 2 // 3,
    )
    assert (after.lease_epoch, after.version, after.attempt_timeout_at_ms) == (
        RUNNING.lease_epoch,
        RUNNING.version,
        NOW + 40,
    )
    assert stored_attempt(store).lease_expires_at_ms == NOW + ttl
    assert told(store) == (["renewed", "renewed"], [], [])


@pytest.mark.parametrize(
    ("percent", "message", "kept"),
    [
        (50, None, (50, "old")),
        (0, None, (0, "old")),
        (None, "new", (10, "new")),
        (None, "", (10, "")),
        (60, "new", (60, "new")),
    ],
)
def test_progress_keeps_fields_that_are_not_given(
    percent: int | None, message: str | None, kept: tuple[int, str]
) -> None:
    before = execution("RUNNING", progress_pct=10, progress_message="old")
    store = seeded(before, attempt(before))
    assert isinstance(commit(store, renewal.progress(handle(before), percent, message)), Applied)
    after = stored(store)
    assert (after.progress_pct, after.progress_message) == kept
    assert (after.progress_updated_at, after.last_mutation_at, after.version) == (
        NOW,
        NOW,
        before.version,
    )
    assert (after.last_transition_at, told(store)) == (before.last_transition_at, ([], [], []))
