"""Planted bugs of ending and claiming in one call. Single ends and claims are unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from flowfabric.engine.claims.claims import Claims
from flowfabric.engine.leases.holder import Holder
from flowfabric.plan import Applied

from .mutants import Patch, Plant

TURNOVER_MUTANTS: dict[str, Plant] = {}
Several = list[Any]


def mutant(plant: Plant) -> Plant:
    TURNOVER_MUTANTS[plant.__name__] = plant
    return plant


HONEST = Holder.complete_and_claim


def planted(patch: Patch, broken: Callable[..., Any]) -> None:
    patch.setattr(Holder, "complete_and_claim", broken)


def telling(patch: Patch, change: Callable[[Several, Several], tuple[Several, Several]]) -> None:
    """The answers of completions and claims are changed."""

    async def complete_and_claim(self: Holder, *args: Any) -> tuple[Several, Several]:
        return change(*await HONEST(self, *args))

    planted(patch, complete_and_claim)


def claiming(patch: Patch, **changes: Callable[[Any], Any]) -> None:
    """Another execution is claimed."""
    honest = Claims.commit_and_claim

    async def commit_and_claim(self: Claims, plans: Any, claimer: Any) -> Any:
        changed = {field: change(getattr(claimer, field)) for field, change in changes.items()}
        return await honest(self, plans, structs.replace(claimer, **changed))

    patch.setattr(Claims, "commit_and_claim", commit_and_claim)


# ---- ends


@mutant
def refused_end_is_told_as_done(patch: Patch) -> None:
    telling(patch, lambda ends, works: ([None] * len(ends), works))


@mutant
def ends_are_told_in_the_wrong_order(patch: Patch) -> None:
    telling(patch, lambda ends, works: (ends[::-1], works))


@mutant
def ends_swap_their_results(patch: Patch) -> None:
    honest = Holder._completions

    def ends_of(self: Holder, many: Any) -> Any:
        return honest(
            self,
            [(handle, result) for (handle, _), (_, result) in zip(many, many[::-1], strict=True)],
        )

    patch.setattr(Holder, "_completions", ends_of)


@mutant
def first_end_is_not_sent(patch: Patch) -> None:
    """The first of several ends is answered as done, but not sent."""
    honest = Claims.commit_and_claim

    async def commit_and_claim(self: Claims, plans: Any, claimer: Any) -> Any:
        done, rows = await honest(self, plans[1:], claimer)
        return [*(Applied(0, (None,)) for _ in plans[:1]), *done], rows

    patch.setattr(Claims, "commit_and_claim", commit_and_claim)


# ---- claims


@mutant
def one_more_is_claimed_beside_an_end(patch: Patch) -> None:
    claiming(patch, wanted=lambda n: n + 1)


@mutant
def everybody_is_capable_beside_an_end(patch: Patch) -> None:
    claiming(patch, capabilities=lambda _: ("gpu",))


@mutant
def what_was_claimed_beside_an_end_is_not_told(patch: Patch) -> None:
    telling(patch, lambda ends, works: (ends, []))


@mutant
def refused_end_stops_the_claim(patch: Patch) -> None:
    honest = Claims.commit_and_claim

    async def commit_and_claim(self: Claims, plans: Any, claimer: Any) -> Any:
        done = await self._store.commit_many(plans) if plans else []
        return done, (await honest(self, (), claimer))[1] if all(
            isinstance(each, Applied) for each in done
        ) else []

    patch.setattr(Claims, "commit_and_claim", commit_and_claim)


@mutant
def nobody_looks_around_beside_an_end(patch: Patch) -> None:
    async def complete_and_claim(self: Holder, *args: Any) -> Any:
        async def nothing(*_: Any) -> bool:
            return False

        with patch.context() as inner:
            inner.setattr(self._claims, "check_routes", nothing)
            return await HONEST(self, *args)

    planted(patch, complete_and_claim)
