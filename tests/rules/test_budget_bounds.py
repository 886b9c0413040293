"""Where the bounds of a plan hold for the stored values, a new decision gives the same result."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from flowfabric.errors import ValidationError
from flowfabric.model.budget import MAX_AMOUNT, HardBreach, SoftBreach, UsageAlreadyApplied, UsageOk
from flowfabric.plan import Applied
from flowfabric.rules.limits.budgets import Report, count, plans

from . import budget_factory as made
from .budget_factory import books, policy

NAMES = ("a", "b")
MOST = 14
small = st.integers(0, 9)
limits = st.dictionaries(st.sampled_from(NAMES), small)
deltas = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5))
reports = st.lists(
    st.builds(lambda d, k: (d, k), deltas, st.sampled_from((None, None, "k", "l"))), max_size=6
)
Told = tuple[str, ...]


def oracle(
    stored: dict[str, int], hard: dict[str, int], soft: dict[str, int], some: list[Any]
) -> tuple[list[Told], dict[str, int]]:
    """Decides one report after the other on the values themselves."""
    values, seen, said = dict(stored), set(), []
    for amounts, key in some:
        if key is not None and key in seen:
            said.append(("again",))
            continue
        after = {name: values.get(name, 0) + by for name, by in amounts.items()}
        breaches = [(n, v) for n, v in sorted(after.items()) if v > (hard.get(n, 0) or MAX_AMOUNT)]
        if breaches:
            name = breaches[0][0]
            said.append(("hard" if hard.get(name) else "too much", name, str(values.get(name, 0))))
            continue
        values |= after
        seen |= {key}
        over = [n for n in sorted(after) if soft.get(n) and after[n] > soft[n]]
        said.append(("soft", over[0], str(after[over[0]])) if over else ("ok",))
    return said, values


def told(result: Any) -> Told:
    match result:
        case UsageOk():
            return ("ok",)
        case UsageAlreadyApplied():
            return ("again",)
        case SoftBreach(dimension=name, current_usage=used):
            return "soft", name, str(used)
        case HardBreach(dimension=name, current_usage=used):
            return "hard", name, str(used)
    assert isinstance(result, ValidationError)
    name, _, rest = result.detail.partition(": ")
    return "too much", name, rest.split()[0]


def kinds(said: list[Told]) -> list[Told]:
    """The result without the amounts, which depend on the stored values."""
    return [each[:2] for each in said]


def counted(
    stored: dict[str, int], hard: dict[str, int], soft: dict[str, int], some: list[Any]
) -> Any:
    known = books(policy(hard, soft), stored)
    return known, count(known, [Report(tuple(sorted(d.items())), key) for d, key in some])


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    stored=st.fixed_dictionaries(dict.fromkeys(NAMES, small)),
    hard=limits,
    soft=limits,
    some=reports,
)
@example(
    stored={"a": 5, "b": 9},
    hard={"a": 9, "b": 9},
    soft={},
    some=[({"a": 1}, None), ({"a": 3, "b": 1}, None)],
)
@example(stored={"a": 5, "b": 5}, hard={}, soft={"a": 4, "b": 4}, some=[({"a": 1, "b": 1}, None)])
def test_bounds_say_exactly_where_the_decisions_hold(
    stored: dict[str, int], hard: dict[str, int], soft: dict[str, int], some: list[Any]
) -> None:
    _, found = counted(stored, hard, soft, some)
    expected, _ = oracle(stored, hard, soft, some)
    assert [told(result) for result in found.results] == expected
    bounds = {name: found.bounds.get(name, (0, MAX_AMOUNT)) for name in NAMES}
    assert all(low <= stored[name] <= high for name, (low, high) in bounds.items())
    for a, b in product(range(MOST), repeat=2):
        inside = bounds["a"][0] <= a <= bounds["a"][1] and bounds["b"][0] <= b <= bounds["b"][1]
        again, _ = oracle({"a": a, "b": b}, hard, soft, some)
        if inside:
            assert kinds(again) == kinds(expected), (a, b, bounds)
    for name, (low, high) in bounds.items():
        for outside in (low - 1, high + 1):
            if 0 <= outside <= MAX_AMOUNT:
                assert kinds(oracle({**stored, name: outside}, hard, soft, some)[0]) != kinds(
                    expected
                ), (name, bounds)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    base=st.integers(MAX_AMOUNT - 8, MAX_AMOUNT),
    hard=st.sampled_from((0, MAX_AMOUNT - 3, MAX_AMOUNT)),
    some=reports,
)
def test_the_same_at_the_end_of_the_numbers(base: int, hard: int, some: list[Any]) -> None:
    stored = {"a": min(base, hard or base), "b": 0}
    _, found = counted(stored, {"a": hard}, {}, some)
    expected, _ = oracle(stored, {"a": hard}, {}, some)
    assert [told(result) for result in found.results] == expected
    low, high = found.bounds.get("a", (0, MAX_AMOUNT))
    for value in (low, high):
        assert kinds(oracle({**stored, "a": value}, {"a": hard}, {}, some)[0]) == kinds(expected)
    if low:
        assert kinds(oracle({**stored, "a": low - 1}, {"a": hard}, {}, some)[0]) != kinds(expected)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    read=st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, small)),
    now=st.fixed_dictionaries(dict.fromkeys(NAMES, small)),
    hard=limits,
    soft=limits,
    some=reports,
)
def test_what_is_stored_afterwards_is_what_the_decisions_say(
    read: dict[str, int],
    now: dict[str, int],
    hard: dict[str, int],
    soft: dict[str, int],
    some: list[Any],
) -> None:
    """When stored values have changed, a plan applies as the oracle would, or is refused."""
    known, found = counted(read, hard, soft, some)
    stored = {name: now[name] for name in read}
    store = made.seeded(books(known.policy, stored))
    todo = plans(known, found)
    if not todo:
        return
    if not isinstance(made.commit(store, todo), Applied):
        assert (made.usage(store), made.keys(store), made.stored_policy(store)) == (
            stored,
            {},
            known.policy,
        )
        return
    said, values = oracle(read, hard, soft, some)
    grown = {name: values[name] - read.get(name, 0) for name in values}
    assert made.usage(store) == {name: stored.get(name, 0) + by for name, by in grown.items()}
    assert all(
        used <= max(hard.get(name) or MAX_AMOUNT, stored.get(name, 0))
        for name, used in made.usage(store).items()
    )
    row = made.stored_policy(store)
    assert row.soft_breach_count == sum(each[0] == "soft" for each in said)
    assert row.breach_count == sum(each[0] == "hard" for each in said)
