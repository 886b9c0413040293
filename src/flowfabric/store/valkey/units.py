"""Plans and sweeps that are applied together, packed for the server, and its answers to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from flowfabric.errors import TransportError
from flowfabric.plan import Answer, Applied, Form, Plan, Refused
from flowfabric.store.port import Row
from flowfabric.store.valkey.encoding import decoded
from flowfabric.store.valkey.library import ServerForm, server_form
from flowfabric.store.valkey.packing import UNSTORABLE, joined, packed
from flowfabric.store.valkey.requests import plan_request

EACH, ALL = "each", "all"
"""Plans of a unit on their own, or all of them or none."""
Outcome = Answer | BaseException
Sweep = tuple[Plan, int]
_REFUSED, _APPLIED, _FAILED = 0, 1, 2
_MODES = {mode: packed(mode) for mode in (EACH, ALL)}
_NO_PLANS = joined(())


class Unit(Struct, frozen=True):
    """`errors` are of plans that cannot be packed and are not sent, by their places."""

    packed: bytes
    weight: int
    forms: tuple[ServerForm, ...]
    errors: Mapping[int, BaseException]


class Done(Struct, frozen=True):
    """The time of a call, its answers to the plans of a unit, and the rows of the sweeps."""

    now: int
    answers: list[Any]
    swept: list[Any]


def unit_of(mode: str, plans: Sequence[Plan], wanted: Sequence[Sweep]) -> Unit:
    errors: dict[int, BaseException] = {}
    sent: list[bytes] = []
    for at, plan in enumerate(plans):
        try:
            sent.append(packed(plan_request(plan)))
        except UNSTORABLE as error:
            if mode != EACH:
                raise
            errors[at] = error
    swept = [packed([plan_request(plan), limit]) for plan, limit in wanted]
    forms = dict.fromkeys([*(plan.form for plan in plans), *(plan.form for plan, _ in wanted)])
    return Unit(
        joined((_MODES[mode], joined(sent), joined(swept) if swept else _NO_PLANS)),
        len(sent) + sum(max(limit, 0) for _, limit in wanted),
        tuple(map(server_form, forms)),
        errors,
    )


def outcomes(plans: Sequence[Plan], unit: Unit, done: Done) -> list[Outcome]:
    """Of plans on their own."""
    rest = iter(done.answers)
    return [
        unit.errors[at] if at in unit.errors else outcome(next(rest), done.now, plan.form)
        for at, plan in enumerate(plans)
    ]


def outcome(answer: Any, now: int, form: Form | None = None) -> Outcome:
    code = answer[0]
    if code == _APPLIED:
        return Applied(now, _returned(form, answer[1:]) if form is not None else ())
    if code == _REFUSED:
        return Refused(answer[2] if len(answer) > 2 else 0, answer[1])
    return TransportError("valkey", answer[1].decode(errors="replace"), backend_kind="protocol")


def raised(found: Outcome) -> Answer:
    if isinstance(found, BaseException):
        raise found
    return found


def swept_rows(plan: Plan, rows: Sequence[Any]) -> list[Row]:
    if rows and rows[0] == _FAILED:
        raise TransportError("valkey", rows[1].decode(errors="replace"), backend_kind="protocol")
    return [_returned(plan.form, row[1:]) for row in rows]


def sources(forms: Iterable[ServerForm]) -> dict[str, str]:
    return {form.name: form.source for form in forms}


def _returned(form: Form, values: Sequence[bytes | None]) -> Row:
    return decoded(values, server_form(form).returning) if values else ()
