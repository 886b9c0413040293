"""Approval links: the token is the only credential, and a wrong one reveals nothing."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric import App, Context, OpenWaitpoint, Worker
from flowfabric.engine.engine import Engine
from flowfabric.model.waitpoint import AllOf, Single
from flowfabric.testing import ManualClock
from tests.engine.suspend_helpers import Parked, park, signals
from tests.server.client import Answer, Client, memory, new_id, served, stores, uuid

NASTY = "<script>alert(1)</script>\"'&"


def link(
    parked: Parked,
    *,
    ident: str | None = None,
    waitpoint: str | None = None,
    token: str | None = None,
) -> str:
    path = f"/approve/{ident or parked.ident}/{waitpoint or parked.waitpoint.waitpoint_id}"
    return f"{path}?t={parked.waitpoint.waitpoint_token if token is None else token}"


async def answer(client: Client, where: str, **said: Any) -> Answer:
    path, _, token = where.partition("?t=")
    return await client.send(
        "POST", path, data={"t": token, "answer": "approved", "who": "Ann", **said}
    )


def is_a_safe_page(found: Answer) -> bool:
    assert found.headers["content-type"] == "text/html; charset=utf-8"
    assert found.headers["cache-control"] == "no-store"
    assert found.headers["referrer-policy"] == "no-referrer"
    assert found.headers["x-frame-options"] == "DENY"
    assert "default-src 'none'" in found.headers["content-security-policy"]
    return b"<script" not in found.raw and b"http" not in found.raw


@stores
async def test_shown_answered_and_used_up(engine: Engine) -> None:
    async with served(engine) as admin:
        client = admin.with_token(None)
        parked = await park(
            engine,
            "deploy?",
            made={
                "execution_kind": "release",
                "tags": {"approval.cost": "5 EUR", "own.secret": "x9x"},
            },
        )
        shown = await client.get(link(parked))
        assert (shown.status, is_a_safe_page(shown)) == (200, True)
        for text in (b"release", b"deploy?", b"5 EUR", b'value="approved"', b'value="rejected"'):
            assert text in shown.raw
        assert b"x9x" not in shown.raw
        done = await answer(client, link(parked), comment="fine")
        assert (done.status, is_a_safe_page(done)) == (200, True)
        (told,) = await signals(engine, parked.ident)
        assert (told.signal_name, told.source_identity, told.source_type) == (
            "approved",
            "Ann",
            "link",
        )
        assert (told.payload, told.comment) == (None, "fine")
        for used in (
            await client.get(link(parked)),
            await answer(client, link(parked), answer="rejected", who="Bob"),
        ):
            assert (used.status, is_a_safe_page(used)) == (410, True)
            assert b"release" not in used.raw
        assert len(await signals(engine, parked.ident)) == 1


@stores
async def test_only_the_answers_that_were_asked_for(engine: Engine) -> None:
    async with served(engine) as client:
        parked = await park(
            engine, "a", resume_condition=AllOf((Single("a", "yes"), Single("a", "no")))
        )
        shown = await client.get(link(parked))
        assert b'value="yes"' in shown.raw and b'value="approved"' not in shown.raw
        other = await answer(client, link(parked), answer="approved")
        assert (other.status, is_a_safe_page(other)) == (400, True)
        for _ in range(2):
            assert (await answer(client, link(parked), answer="yes")).status == 200
        assert len(await signals(engine, parked.ident)) == 1


@stores
async def test_links_that_are_not_valid_look_all_the_same(engine: Engine) -> None:
    async with served(engine) as client:
        parked, other = await park(engine), await park(engine, made={"lane_id": "other"})
        token = parked.waitpoint.waitpoint_token
        forged = token[:-1] + ("0" if token[-1] != "0" else "1")
        links = [
            link(parked, token=forged),
            link(parked, token=""),
            link(parked, token="nonsense"),
            link(parked, token="%3Cscript%3E"),
            link(parked, token="x" * 513),
            link(parked, ident=str(other.ident)),
            link(parked, ident=new_id()),
            link(parked, waitpoint=uuid()),
            link(parked, waitpoint=str(other.waitpoint.waitpoint_id)),
            link(parked, token=other.waitpoint.waitpoint_token),
            link(parked, ident="nonsense"),
            link(parked, waitpoint="nonsense"),
        ]
        found = [await client.get(each) for each in links] + [
            await answer(client, each) for each in links
        ]
        assert {(each.status, each.raw) for each in found} == {(404, found[0].raw)}
        assert all(is_a_safe_page(each) for each in found)
        assert await signals(engine, parked.ident) == []


@stores
async def test_a_link_past_the_grace_of_its_key(engine: Engine, clock: ManualClock) -> None:
    async with served(engine, waitpoint_hmac_grace_ms=1_000) as client:
        parked = await park(engine)
        body = {"new_kid": "k2", "new_secret_hex": "ab" * 32}
        assert (await client.post("/v1/admin/rotate-waitpoint-secret", body)).status == 200
        assert (await client.get(link(parked))).status == 200
        clock.advance(1_001)
        for found in (await client.get(link(parked)), await answer(client, link(parked))):
            assert (found.status, is_a_safe_page(found)) == (410, True)
            assert b"expired" in found.raw
        assert await signals(engine, parked.ident) == []


@memory
async def test_a_task_sees_that_a_name_was_only_written(engine: Engine) -> None:
    links: list[OpenWaitpoint] = []
    async with served(engine) as client, App("memory://", engine=engine) as app:

        @app.task
        async def release(ctx: Context) -> list[str]:
            (said,) = (await ctx.approval("go-live", notify=links.append)).answers
            return [said.by, said.source_type]

        run, worker = await release.submit(), Worker(app)
        await worker.run_until_idle()
        (asked,) = links
        assert (
            await answer(client, f"/approve/{asked.run}/{asked.waitpoint_id}?t={asked.token}")
        ).status == 200
        await worker.run_until_idle()
        assert await run.result() == ["Ann", "link"]


@stores
@pytest.mark.meets("suspend", "quorum")
async def test_two_links_are_two_answers_whatever_name_is_typed(engine: Engine) -> None:
    """The holder of one link types the name of another approver first; the answer of that one still
    counts.
    """
    links: list[OpenWaitpoint] = []
    async with served(engine) as client, App("memory://", engine=engine) as app:

        @app.task
        async def release(ctx: Context) -> list[str]:
            decision = await ctx.approval(
                "go-live", need=2, approvers=["Ann", "Bob"], notify=links.append
            )
            return [each.by for each in decision.answers]

        run, worker = await release.submit(), Worker(app, loops=False)
        await worker.run_until_idle()
        first, second = (
            f"/approve/{link.run}/{link.waitpoint_id}?t={link.token}" for link in links
        )
        for where in (first, first, second):
            assert (await answer(client, where, who="Bob")).status == 200
        await worker.run_until_idle()
        assert sorted(await run.result("5s")) == ["Ann", "Bob"]


@memory
async def test_user_text_is_escaped_in_html(engine: Engine) -> None:
    async with served(engine) as client:
        made = {"execution_kind": NASTY, "tags": {"approval.why": NASTY}}
        parked = await park(engine, NASTY, made=made, resume_condition=Single(NASTY, NASTY))
        shown = await client.get(link(parked))
        assert (shown.status, is_a_safe_page(shown)) == (200, True)
        assert shown.raw.count(b"&lt;script&gt;") >= 4
        done = await answer(client, link(parked), answer=NASTY, who=NASTY, comment=NASTY)
        assert (done.status, is_a_safe_page(done)) == (200, True)


@memory
async def test_forms_that_cannot_be_read(engine: Engine) -> None:
    async with served(engine) as client:
        parked = await park(engine)
        where = link(parked).partition("?")[0]
        for data, media, status in (
            (b"{}", "application/json", 415),
            (b"who=Ann", "application/x-www-form-urlencoded", 422),
            (b"answer=approved&who=", "application/x-www-form-urlencoded", 422),
            (b"&".join(b"a%d=1" % n for n in range(100)), "application/x-www-form-urlencoded", 422),
            (b"\xff", "application/x-www-form-urlencoded", 422),
            (b"answer=approved&who=" + b"x" * 201, "application/x-www-form-urlencoded", 422),
            (b"x" * 65_537, "application/x-www-form-urlencoded", 413),
        ):
            found = await client.send("POST", where, data=data, headers={"Content-Type": media})
            assert found.status == status, (data[:30], found)
        assert await signals(engine, parked.ident) == []


@memory
async def test_a_payload_that_does_not_fit_is_a_400_and_the_question_stays_open(
    engine: Engine,
) -> None:
    links: list[OpenWaitpoint] = []
    async with served(engine) as client, App("memory://", engine=engine) as app:

        @app.task
        async def release(ctx: Context) -> list[Any]:
            decision = await ctx.approval("days", notify=links.append, payload=int)
            return [decision.by, decision.comment, decision.answers[0].payload]

        run, worker = await release.submit(), Worker(app)
        await worker.run_until_idle()
        path = f"/approve/{links[0].run}/{links[0].waitpoint_id}?t={links[0].token}"
        assert b'name="payload"' in (await client.get(path)).raw
        for bad in ("", "three"):
            found = await answer(client, path, payload=bad)
            assert (found.status, is_a_safe_page(found)) == (400, True)
        assert (await answer(client, path, payload="3", comment="fine")).status == 200
        await worker.run_until_idle()
        assert await run.result() == ["Ann", "fine", 3]


@memory
@pytest.mark.meets("suspend", "cancel")
async def test_the_page_of_a_cancelled_execution_asks_nothing(engine: Engine) -> None:
    links: list[OpenWaitpoint] = []
    async with served(engine) as client, App("memory://", engine=engine) as app:

        @app.task
        async def release(ctx: Context) -> None:
            await ctx.approval("go-live", notify=links.append)

        run = await release.submit()
        await Worker(app).run_until_idle()
        await run.cancel("not now")
        path = f"/approve/{links[0].run}/{links[0].waitpoint_id}?t={links[0].token}"
        for found in (await client.get(path), await answer(client, path)):
            assert (found.status, is_a_safe_page(found)) == (410, True)
            assert b"No longer needed" in found.raw and b"<form" not in found.raw
