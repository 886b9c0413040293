"""The calls of a holder that keep its lease: renewals and progress reports."""

from __future__ import annotations

from flowfabric.model.lease import HandleFields, LeaseRenewal
from flowfabric.plan import After, Arg, Form, Insert, Now, Plan, Span, Update, UpdateMany, Wake
from flowfabric.rules.decision import Commit
from flowfabric.rules.fragments import ATTEMPT, EXEC, HELD, THIS_ATTEMPT, Columns, held_event
from flowfabric.rules.leases.acquisition import renew_within_ms
from flowfabric.rules.leases.attempts import held_by


def _renewal(name: str, ttl: Span | Arg, renew_within: Span | Arg, *events: Insert) -> Form:
    return Form(
        name,
        Update(
            EXEC,
            HELD,
            {
                "lease_expires_at_ms": Now(ttl),
                "lease_last_renewed_at": Now(),
                "lease_renewal_deadline": Now(renew_within),
            },
        ),
        UpdateMany(ATTEMPT, THIS_ATTEMPT, {"lease_expires_at_ms": After("lease_expires_at_ms")}),
        *events,
        Wake("leased", at=After("lease_expires_at_ms")),
        returning=("lease_expires_at_ms", "lease_epoch"),
    )


_RENEWED_AT = "lease_last_renewed_at"
_AS_GRANTED = (
    Span(_RENEWED_AT, "lease_expires_at_ms"),
    Span(_RENEWED_AT, "lease_renewal_deadline"),
)
"""The duration of the last grant or renewal; the ttl in the handle is not used."""
_AS_REQUESTED = Arg("lease_ttl_ms"), Arg("renew_within_ms")
_RENEWED = held_event("renewed")
RENEW = _renewal("renew", *_AS_GRANTED, _RENEWED)
RENEW_SILENT = _renewal("renew_untold", *_AS_GRANTED)
RENEW_FOR = _renewal("renew_for", *_AS_REQUESTED, _RENEWED)
RENEW_FOR_SILENT = _renewal("renew_for_untold", *_AS_REQUESTED)


def _progress(name: str, **columns: Arg) -> Form:
    changes: Columns = {"progress_updated_at": Now(), "last_mutation_at": Now(), **columns}
    return Form(name, Update(EXEC, HELD, changes))


PROGRESS = _progress("progress", progress_pct=Arg("percent"), progress_message=Arg("message"))
PROGRESS_PERCENT = _progress("progress_percent", progress_pct=Arg("percent"))
PROGRESS_MESSAGE = _progress("progress_message", progress_message=Arg("message"))


def renew(handle: HandleFields, *, event: bool = True) -> Commit:
    """`event`: whether the renewal writes a lease event."""
    form = RENEW if event else RENEW_SILENT
    plan = form(**held_by(handle))
    return Commit(plan, lambda applied: LeaseRenewal(*applied.row))


def renew_for(handle: HandleFields, ttl_ms: int, *, event: bool = True) -> Plan:
    """As `renew`, for a new duration."""
    form = RENEW_FOR if event else RENEW_FOR_SILENT
    return form(
        **held_by(handle),
        lease_ttl_ms=ttl_ms,
        renew_within_ms=renew_within_ms(ttl_ms),
    )


def progress(handle: HandleFields, percent: int | None, message: str | None) -> Plan:
    held = held_by(handle)
    if message is None:
        return PROGRESS_PERCENT(**held, percent=percent)
    if percent is None:
        return PROGRESS_MESSAGE(**held, message=message)
    return PROGRESS(**held, percent=percent, message=message)
