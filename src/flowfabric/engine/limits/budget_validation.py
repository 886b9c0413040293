"""Checks of the arguments of budgets and usage reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from msgspec import structs

from flowfabric.engine import validation
from flowfabric.errors import bad_input, invalid
from flowfabric.ids import ExecutionId
from flowfabric.model import budget as model
from flowfabric.model.lease import HandleFields
from flowfabric.rules.limits.budgets import Report

MAX_LABEL_BYTES = 1_024
_USAGE_FIELDS = ("input_tokens", "output_tokens", "wall_ms")


def budget_id(value: object) -> UUID:
    return validation.flow_id(value, "budget_id")


def _listed(value: object, field: str) -> list[object]:
    if not isinstance(value, list | tuple):
        raise invalid(field, "a list", type(value).__name__)
    return list(value)


def new_budget(args: model.CreateBudgetArgs) -> model.CreateBudgetArgs:
    """The checked arguments, with the id as a UUID."""
    validation.instance(args, model.CreateBudgetArgs)
    ident = budget_id(args.budget_id)
    _check_limits(args, "create_budget")
    for field in ("scope_type", "scope_id", "enforcement_mode"):
        validation.text(getattr(args, field), field, MAX_LABEL_BYTES)
    validation.optional_timestamp(args.now, "now")
    validation.optional_namespace(args.namespace)
    return args if ident is args.budget_id else structs.replace(args, budget_id=ident)


def other_limits(args: model.UpdateBudgetArgs) -> model.UpdateBudgetArgs:
    """The checked arguments, with the id as a UUID."""
    validation.instance(args, model.UpdateBudgetArgs)
    ident = budget_id(args.budget_id)
    _check_limits(args, "update_budget")
    validation.text(args.by, "by", MAX_LABEL_BYTES)
    return args if ident is args.budget_id else structs.replace(args, budget_id=ident)


def _check_limits(args: model.CreateBudgetArgs | model.UpdateBudgetArgs, call: str) -> None:
    names = _listed(args.dimensions, "dimensions")
    _check_count(len(names))
    limits = {
        field: _listed(getattr(args, field), field) for field in ("hard_limits", "soft_limits")
    }
    if any(len(several) != len(names) for several in limits.values()):
        raise bad_input(f"{call}: dimensions / hard_limits / soft_limits length mismatch")
    for name in names:
        _dimension(name)
    for field, several in limits.items():
        for limit in several:
            validation.whole(limit, field, 0, model.MAX_AMOUNT)
    for field in ("on_hard_limit", "on_soft_limit"):
        validation.text(getattr(args, field), field, MAX_LABEL_BYTES)
    if args.on_hard_limit in model.RESERVED_ACTIONS:
        raise bad_input(f"on_hard_limit: {args.on_hard_limit} is reserved and does nothing yet")
    validation.whole(args.reset_interval_ms, "reset_interval_ms", 0, validation.MAX_TIMESTAMP_MS)


def used(usage: model.UsageDimensions) -> dict[str, int]:
    """The amounts of a worker's report by dimension, with tokens and time."""
    validation.instance(usage, model.UsageDimensions, "usage")
    amounts = given(usage.custom, "custom")
    for field in _USAGE_FIELDS:
        amount = getattr(usage, field)
        if amount is None and field == "wall_ms":
            continue
        validation.whole(amount, field, 0, model.MAX_AMOUNT)
        if amount == 0 and field != "wall_ms":
            continue
        if field in amounts:
            raise bad_input(f"{field}: given as a field and in custom")
        amounts[field] = amount
    return amounts


def given(amounts: object, field: str) -> dict[str, int]:
    if not isinstance(amounts, Mapping):
        raise invalid(field, "a mapping of dimensions to amounts", type(amounts).__name__)
    return dict(_amounts(field, amounts.items(), len(amounts)))


def spend(amounts: object) -> dict[str, int]:
    for name, amount in amounts.items() if isinstance(amounts, Mapping) else ():
        if isinstance(amount, int) and amount > model.MAX_AMOUNT:
            shown = amount if amount < 2**256 else "far more"
            detail = (
                f"record_spend: delta for dim={_dimension(name):.80} exceeds i64::MAX ({shown})"
            )
            raise bad_input(detail)
    return given(amounts, "deltas")


def summed(dimensions: object, deltas: object) -> dict[str, int]:
    """The amounts by dimension. Amounts for the same dimension are added."""
    names, amounts = _listed(dimensions, "dimensions"), _listed(deltas, "deltas")
    if len(names) != len(amounts):
        raise bad_input("report_usage_admin: dimensions and deltas length mismatch")
    found: dict[str, int] = {}
    for name, amount in _amounts("deltas", zip(names, amounts, strict=True), len(names)):
        total = found.get(name, 0) + amount
        found[name] = validation.whole(total, f"deltas: {name}", 0, model.MAX_AMOUNT)
    return found


def report(
    amounts: dict[str, int],
    key: object,
    field: str,
    *,
    by: ExecutionId | None = None,
    charged: ExecutionId | None = None,
    lease: HandleFields | None = None,
) -> Report:
    known = validation.optional_text(key, field, model.MAX_USAGE_KEY_BYTES)
    _check_count(len(amounts))
    return Report(tuple(sorted(amounts.items())), known or None, charged, by, lease)


def _check_count(number: int) -> None:
    if number > model.MAX_DIMENSIONS:
        raise bad_input(
            f"too_many_dimensions: limit={model.MAX_DIMENSIONS}, got={number}",
        )


def _dimension(name: object) -> str:
    known = validation.text(name, "dimension", model.MAX_DIMENSION_BYTES)
    if not known:
        raise invalid("dimension", "a name", "''")
    return known


def _amounts(
    field: str, pairs: Iterable[tuple[object, object]], number: int
) -> Iterator[tuple[str, int]]:
    _check_count(number)
    for name, amount in pairs:
        yield _dimension(name), validation.whole(amount, f"{field}: {name}", 0, model.MAX_AMOUNT)
