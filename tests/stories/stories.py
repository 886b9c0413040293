"""Three stories that combine most features."""

from __future__ import annotations

from typing import Any

from flowfabric import App, ChildFailed, Context, HardLimitAction, Retry, quorum
from flowfabric.model.lease import RevokeLeaseArgs
from flowfabric.sdk.flow import Node

from .process import LEASE_MS
from .story import Story

LANE = "work"
"""The tenants share it; a quota of a whole lane needs one of its own."""
LIMIT, LIMIT_MS = "2m", 120_000
AGAIN = Retry(max=20, backoff="fixed", base="10s")
NEW_AGAIN = Retry(max=30, backoff="fixed", base="20s")
"""Of the second version."""


class Order(Story):
    """A parent whose children book, sleep, fail, time out, request two approvals and wait for a
    budget, in sequence. A third child requests an approval that never comes, until its deadline.
    """

    def declare(self, app: App, version: int) -> None:
        app.quota("carrier", concurrent=1)
        app.budget(
            "labels",
            hard={"labels": 1},
            resets="12h",
            on_hard_limit=HardLimitAction.SUSPEND_EXECUTION,
        )
        retry = AGAIN if version == 1 else NEW_AGAIN

        @app.task(lane=LANE, retry=retry, timeout=LIMIT if version == 1 else "90s", quota="carrier")
        async def ship(ctx: Context, n: int, insured: bool = False) -> list[str]:
            booked = await ctx.step("book", self.note, f"book {n}", version)
            await ctx.sleep("1m")
            if self.first(f"away {n}"):
                raise ConnectionError("the carrier is away")
            if self.first(f"slow {n}"):
                await self.lasts(LIMIT_MS + 5_000)
                return ["too late"]
            decision = await ctx.approval("label", need=2, notify=self.links.append)
            await ctx.spend("labels", labels=1, key=f"{self.root}/{n}")
            printed = await ctx.step("print", self.note, f"print {n}", version)
            return [booked, *sorted(answer.by for answer in decision.answers), printed]

        @app.task(lane=LANE)
        async def ghost(ctx: Context) -> None:
            await ctx.suspend("nobody answers")

        @app.task(lane=LANE)
        async def order(ctx: Context) -> list[Any]:
            reserved = await ctx.step("reserve", self.note, "reserve", version)
            calls = [ship.call(1), ship.call(2), ghost.call(deadline="3h")]
            *parcels, lost = await ctx.children(*calls, return_exceptions=True)
            closed = await ctx.step("close", self.note, "close", version)
            if version > 1:
                await ctx.step("tell", self.note, "tell", version)
            return [reserved, *parcels, lost.end if isinstance(lost, ChildFailed) else lost, closed]

    async def begin(self) -> None:
        self.root = (await self.client.named("order").submit(key="the order")).id

    async def check(self) -> None:
        reserved, one, two, lost, closed = await self.result("order")
        assert lost == "expired"
        for n, parcel in enumerate((one, two), 1):
            assert [part.split(" by ")[0] for part in parcel] == [
                f"book {n}",
                "ann",
                "bob",
                f"print {n}",
            ], parcel
            assert self.happened[f"slow {n}"] > 0
            self.check_versions([parcel[0], parcel[-1]])
        self.check_versions([reserved, closed])
        again = await self.client.named("order").submit(key="the order")
        assert again.id == self.root

    async def check_all_met(self) -> None:
        found = await self.by_kind()
        assert [(row["retry_count"], row["lease_reclaim_count"]) for row in found["ship"]] == [
            (2, 0),
            (2, 0),
        ]
        assert [row["failure_reason"] for row in found["ship"]] == ["attempt_timeout"] * 2
        first, second = await self.happenings("ship")
        assert {"delayed", "retried", "suspended", "signalled", "resumed", "ended"} <= {*first} & {
            *second
        }
        assert "held_back" in {*first} ^ {*second}, "only one label was left"


class Quotes(Story):
    """A flow that needs two of four quotes, under a quota and a budget. One fails, then times out;
    one waits for the budget until its deadline; the worker of one loses its lease; one is delayed
    until the others are enough, and is cancelled.
    """

    losses = 1

    def declare(self, app: App, version: int) -> None:
        app.quota("mirror", concurrent=2)
        app.budget(
            "tokens",
            hard={"tokens": 10},
            resets="12h",
            on_hard_limit=HardLimitAction.SUSPEND_EXECUTION,
        )
        retry = AGAIN if version == 1 else NEW_AGAIN

        @app.task(lane=LANE, retry=retry, timeout=LIMIT if version == 1 else "90s", quota="mirror")
        async def quote(ctx: Context, name: str, tokens: int) -> str:
            price = await ctx.step("price", self.note, f"price {name}", version)
            if self.first(f"away {name}"):
                raise ConnectionError("the mirror is away")
            if self.first(f"slow {name}"):
                await self.lasts(LIMIT_MS + 5_000)
                return "too late"
            await ctx.spend("tokens", tokens=tokens, key=str(ctx.execution_id))
            return str(price)

        @app.task(lane=LANE, quota="mirror", retry=retry)
        async def probe(ctx: Context) -> str:
            price = await ctx.step("price", self.note, "price c", version)
            if self.first("lost"):
                await self.lasts(LEASE_MS + 1_000)
                await ctx.step("too late", self.note, "too late", version)
            await ctx.spend("tokens", tokens=10, key=str(ctx.execution_id))
            return str(price)

        @app.task(lane=LANE)
        async def pick() -> str:
            return f"picked by v{version}"

        @app.task(lane=LANE)
        async def report(picked: str, comment: str = "") -> str:
            return f"{picked}{comment}"

    async def begin(self) -> None:
        made = self.client.flow("quotes")
        quote = self.client.named("quote")
        a = made.add(quote, "a", 10)
        b = made.add(quote, "b", 20, deadline="40m")
        c = made.add(self.client.named("probe"))
        d = made.add(quote, "d", 1, delay="3d")
        picked = made.add(self.client.named("pick"), after=quorum(2, a, b, c, d))
        last = made.add(self.client.named("report"), picked)
        self.members: dict[str, Node] = {
            "a": a,
            "b": b,
            "c": c,
            "d": d,
            "pick": picked,
            "report": last,
        }
        self.root, self.flow = last.id, (await made.submit()).id

    async def check(self) -> None:
        ends = {
            name: await self.client.run(str(node.id)).state() for name, node in self.members.items()
        }
        assert ends == {
            **dict.fromkeys(["a", "c", "pick", "report"], "completed"),
            "b": "expired",
            "d": "cancelled",
        }, ends
        assert (await self.result("report")).startswith("picked by v")
        assert self.happened["slow a"] > 0 and self.steps["price d"] == 0
        await self.base.project_flow_summary(self.flow)
        summary = await self.base.read_flow_summary(self.flow)
        assert summary is not None and summary.public_flow_state == "failed", (
            summary
        )  # b did not make it

    async def check_all_met(self) -> None:
        rows = {row["execution_id"]: row for row in await self.rows("ff_exec_core")}
        a, b, c, d = (rows[self.members[name].id.uuid] for name in "abcd")
        assert (a["retry_count"], a["failure_reason"]) == (2, "attempt_timeout")
        assert (b["retry_count"], b["failure_reason"], b["interrupt_cause"]) == (
            2,
            "execution_deadline",
            "budget",
        )
        assert (c["lease_reclaim_count"], c["retry_count"], d["total_attempt_count"]) == (1, 0, 0)
        held = [
            life
            for kind in ("quote", "probe")
            for life in await self.happenings(kind)
            if "held_back" in life
        ]
        assert len(held) == 2, "b, and a or c"


class Yard(Story):
    """Children that lose their lease to an operator and to expiry while they hold a slot of a
    quota, and request two approvals. The parent is cancelled while they wait, and replayed: the
    children continue after their finished steps.
    """

    losses = 1
    was = "running"

    def declare(self, app: App, version: int) -> None:
        app.quota("gate", concurrent=1, lane=f"{self.tenant}-yard")

        @app.task(lane=f"{self.tenant}-yard", retry=AGAIN if version == 1 else NEW_AGAIN)
        async def work(ctx: Context, n: int) -> list[str]:
            one = await ctx.step("one", self.note, f"one {n}", version)
            if self.first(f"revoked {n}"):
                await self.base.revoke_lease(RevokeLeaseArgs(execution_id=ctx.execution_id))
            two = await ctx.step("two", self.note, f"two {n}", version)
            if self.first(f"lost {n}"):
                await self.lasts(LEASE_MS + 1_000)
            three = await ctx.step("three", self.note, f"three {n}", version)
            await ctx.approval("sign", need=2, notify=self.links.append)
            four = await ctx.step("four", self.note, f"four {n}", version)
            return [one, two, three, four]

        @app.task(lane=LANE)
        async def job(ctx: Context, careful: bool = False) -> list[list[str]]:
            done: list[list[str]] = await ctx.children(work.call(1), work.call(2))
            if version > 1:
                await ctx.step("tell", self.note, "tell", version)
            return done

    async def begin(self) -> None:
        self.root = (await self.client.named("job").submit()).id

    async def people(self) -> int:
        run = self.client.run(str(self.root))
        asked = {link.run for link in self.links}
        if self.was == "running" and len(asked) == 2 and await run.state() == "suspended":
            await run.cancel("not today")
            self.was = "cancelled"
        elif self.was == "cancelled" and await self.is_ended():
            await run.replay()
            self.was = "replayed"
        elif self.was == "replayed":
            return await self.answers("ann", "bob")
        else:
            return 0
        return 1

    async def is_ended(self) -> bool:
        return await super().is_over()

    async def is_over(self) -> bool:
        return self.was == "replayed" and await super().is_over()

    async def check(self) -> None:
        found = await self.result("job")
        assert [[part.split(" by ")[0] for part in each] for each in found] == [
            [f"{word} {n}" for word in ("one", "two", "three", "four")] for n in (1, 2)
        ]
        for each in found:
            self.check_versions(each)
        for row in (await self.by_kind())["work"]:
            assert (row["replay_count"], row["public_state"]) == (1, "completed"), row

    async def check_all_met(self) -> None:
        for life in await self.happenings("work"):
            assert (
                life.count("revoked") == life.count("lease_expired") == life.count("replayed") == 1
            ), life
            assert life.count("suspended") == life.count("ended") == 2, life
