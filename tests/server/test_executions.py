"""Routes of executions: every shape and status, on each store."""

from __future__ import annotations

import asyncio
import base64

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.testing import ManualClock
from tests.engine.helpers import claim, lost
from tests.engine.suspend_helpers import park
from tests.patience import patient
from tests.server.client import Client, full, memory, new_id, quoted, served, stores, uuid

INFO = {
    "execution_id",
    "namespace",
    "lane_id",
    "priority",
    "execution_kind",
    "state_vector",
    "public_state",
    "created_at",
    "current_attempt_index",
    "flow_id",
    "blocking_detail",
}
VECTOR = {
    "lifecycle_phase",
    "ownership_state",
    "eligibility_state",
    "blocking_reason",
    "terminal_outcome",
    "attempt_state",
    "public_state",
}


@stores
async def test_the_server_mints_the_id_of_a_minimal_request(engine: Engine) -> None:
    """The server mints the id, in the partition of the lane or of the flow."""
    async with served(engine) as client:
        solo = ExecutionId(await client.create())
        assert solo.partition_index == ExecutionId.solo("default").partition_index
        flow = uuid()
        member = ExecutionId(await client.create(flow_id=flow))
        listed = await client.get(f"/v1/executions?partition={member.partition_index}")
    assert str(member) in listed.json["executions"]


@stores
async def test_a_payload_as_numbers_or_as_base64(engine: Engine) -> None:
    async with served(engine) as client:
        listed = await client.create(input_payload=[0, 255, 10])
        encoded = await client.create(input_payload_b64=base64.b64encode(b"\x00\xff\n").decode())
        both = await client.post(
            "/v1/executions", {"lane_id": "default", "input_payload": [], "input_payload_b64": ""}
        )
        wide = await client.post("/v1/executions", full(input_payload=[256]))
    for ident in (listed, encoded):
        context = await engine.read_execution_context(ExecutionId(ident))
        assert context is not None and context.input_payload == b"\x00\xff\n"
    assert (both.status, both.error) == (
        400,
        "input_payload, input_payload_b64: only one of the two is accepted",
    )
    assert (wide.status, wide.error) == (422, "invalid JSON: Unprocessable Entity")


@stores
async def test_delayed_and_the_same_id_twice(engine: Engine, clock: ManualClock) -> None:
    async with served(engine) as client:
        body = full(delay_until=clock.now_ms + 1_000)
        made = await client.post("/v1/executions", body)
        again = await client.post("/v1/executions", body)
    assert made.json["Created"]["public_state"] == "delayed"
    assert (again.status, again.json) == (
        200,
        {"Duplicate": {"execution_id": body["execution_id"]}},
    )


@memory
@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"execution_id": "nonsense"}, 422, "invalid JSON"),
        ({"execution_id": "{fp:99999}:" + uuid()}, 422, "invalid JSON"),
        ({"execution_id": "{fp:1}:x"}, 422, "invalid JSON"),
        ({"lane_id": ""}, 422, "invalid JSON"),
        ({"lane_id": "x" * 65}, 422, "invalid JSON"),
        ({"lane_id": "naïve"}, 422, "invalid JSON"),
        ({"priority": 2**31}, 422, "invalid JSON"),
        ({"priority": "high"}, 422, "invalid JSON"),
        ({"now": 2**63}, 422, "invalid JSON"),
        ({"partition_id": 65_536}, 422, "invalid JSON"),
        ({"partition_id": 65_535}, 201, None),
        ({"now": -5}, 201, None),
        (
            {"policy": {"routing_requirements": {"required_capabilities": ["a,b"]}}},
            400,
            "invalid_capabilities",
        ),
        ({"unheard_of": True}, 201, None),
        ({"idempotency_key": None, "tags": {"a.b": "c"}}, 201, None),
    ],
)
async def test_fields_of_a_creation(
    engine: Engine, changes: dict[str, object], status: int, said: str | None
) -> None:
    async with served(engine) as client:
        body = full(**changes)
        made = await client.post("/v1/executions", body)
        assert made.status == status, made
        if said is not None:
            assert said in made.error
            assert (
                await client.get(
                    f"/v1/executions?partition={ExecutionId.solo('default').partition_index}"
                )
            ).json == {
                "executions": [],
                "next_cursor": None,
            }


@stores
async def test_many_at_once(engine: Engine) -> None:
    async with served(engine) as client:
        known = new_id()
        made = await client.post(
            "/v1/executions/batch",
            {
                "executions": [
                    {"lane_id": "default", "execution_id": known},
                    {"lane_id": "default", "execution_id": known},
                ]
            },
        )
        none = await client.post("/v1/executions/batch", {"executions": []})
    assert made.status == 200
    assert [list(each) for each in made.json] == [["Created"], ["Duplicate"]]
    assert (none.status, none.json) == (200, [])


@stores
async def test_a_partition_is_listed_in_pages(engine: Engine) -> None:
    async with served(engine) as client:
        made = sorted([await client.create() for _ in range(5)])
        at = ExecutionId(made[0]).partition_index
        first = await client.get(f"/v1/executions?partition={at}&limit=2")
        assert first.json == {"executions": made[:2], "next_cursor": made[1]}
        rest = await client.get(
            f"/v1/executions?partition={at}&cursor={quoted(made[1])}&limit=5000"
        )
        assert rest.json == {"executions": made[2:], "next_cursor": None}
        assert (await client.get(f"/v1/executions?partition={at}&limit=0")).json == {
            "executions": [],
            "next_cursor": None,
        }
        assert (await client.get(f"/v1/executions?partition={at}&cursor=")).json[
            "executions"
        ] == made
        assert (await client.get("/v1/executions?partition=65535")).json == {
            "executions": [],
            "next_cursor": None,
        }
        bad = await client.get(f"/v1/executions?partition={at}&cursor=x")
    assert (bad.status, bad.error.startswith("invalid cursor: ")) == (400, True)


@memory
@pytest.mark.parametrize(
    "query",
    [
        "",
        "partition=x",
        "partition=65536",
        "partition=-1",
        "partition=1&limit=x",
        "partition=1&limit=-1",
    ],
)
async def test_a_query_that_cannot_be_read(engine: Engine, query: str) -> None:
    async with served(engine) as client:
        found = await client.get(f"/v1/executions?{query}")
    assert (found.status, found.error.startswith("invalid query: ")) == (400, True)


@stores
async def test_execution_info_through_its_states(engine: Engine) -> None:
    async with served(engine) as client:
        ident = await client.create()
        fresh = await client.get(f"/v1/executions/{ident}")
        assert (fresh.status, set(fresh.json), set(fresh.json["state_vector"])) == (
            200,
            INFO,
            VECTOR,
        )
        assert (fresh.json["flow_id"], fresh.json["blocking_detail"]) == (None, "")
        assert fresh.json["created_at"].isdigit()
        unfinished = await client.get(f"/v1/executions/{ident}/result")
        assert (unfinished.status, "not found" in unfinished.error) == (404, True)
        handle = await claim(engine)
        await engine.complete(handle, b"\x00\xff\r\n")
        ended = (await client.get(f"/v1/executions/{ident}")).json
        assert set(ended) == INFO | {"started_at", "completed_at"}
        assert ended["started_at"].isdigit() and ended["completed_at"].isdigit()
        result = await client.get(f"/v1/executions/{ident}/result")
        assert (result.status, result.headers["content-type"], result.raw) == (
            200,
            "application/octet-stream",
            b"\x00\xff\r\n",
        )
        assert (await client.get(f"/v1/executions/{ident}/state")).json == "completed"


@memory
@pytest.mark.parametrize(
    "rest",
    ["", "/state", "/result", "/wait?timeout_ms=0", "/explain", "/history", "/attempts", "/tags"],
)
async def test_reads_of_missing_and_invalid_ids(engine: Engine, rest: str) -> None:
    async with served(engine) as client:
        missing = await client.get(f"/v1/executions/{new_id()}{rest}")
        assert (missing.status, "not found" in missing.error) == (404, True)
        for text in ("nonsense", "{fp:x}:" + uuid(), "{fp:1}:x"):
            bad = await client.get(f"/v1/executions/{quoted(text)}{rest}")
            assert (bad.status, bad.error.startswith("invalid execution_id: ")) == (400, True)


@memory
@pytest.mark.parametrize(
    ("rest", "entity"),
    [
        ("", "execution"),
        ("/state", "execution"),
        ("/result", "execution result"),
        ("/tags", "execution"),
    ],
)
async def test_what_is_not_there_is_named_with_its_id(
    engine: Engine, rest: str, entity: str
) -> None:
    async with served(engine) as client:
        ident = new_id()
        found = await client.get(f"/v1/executions/{quoted(ident)}{rest}")
        assert (found.status, found.error) == (404, f"{entity} not found: {ident}")


@memory
@pytest.mark.parametrize(
    ("spelled", "status"),
    [
        ("{0}", 404),
        ("{1}", 404),
        ("{{{0}}}", 404),
        ("urn:uuid:{0}", 404),
        ("{0}-", 400),
        (f"{'0' * 30}_0", 400),
    ],
)
async def test_a_uuid_of_a_path_has_one_of_four_forms(
    engine: Engine, spelled: str, status: int
) -> None:
    ident = uuid()
    said = spelled.format(ident, ident.replace("-", ""))
    async with served(engine) as client:
        for path in ("flows/", "budgets/", "executions/{fp:1}:"):
            found = await client.get(f"/v1/{quoted(path + said)}")
            assert found.status == status, (path, said, found)


@stores
async def test_waiting_for_the_end(engine: Engine) -> None:
    async with served(engine) as client:
        ident = await client.create()
        at_once = await client.get(f"/v1/executions/{ident}/wait?timeout_ms=0")
        assert (at_once.status, at_once.json) == (
            200,
            {"public_state": "waiting", "terminal": False},
        )
        handle = await claim(engine)
        waiting = asyncio.create_task(client.get(f"/v1/executions/{ident}/wait?timeout_ms=30000"))
        await _somebody_waits(engine)
        await engine.complete(handle, b"")
        found = await waiting
        assert (found.status, found.json) == (200, {"public_state": "completed", "terminal": True})
        for bad in ("30001", "-1", "x"):
            assert (await client.get(f"/v1/executions/{ident}/wait?timeout_ms={bad}")).status == 400


async def _somebody_waits(engine: Engine) -> None:
    async with patient(10):
        while ("ff_completion_event", None) not in engine.store.hub.waiters:  # noqa: ASYNC110
            await asyncio.sleep(0)


# ---- control


async def cancel(client: Client, ident: str, **said: object) -> tuple[int, dict[str, object]]:
    found = await client.post(
        f"/v1/executions/{ident}/cancel", {"execution_id": ident, "reason": "r", "now": 1, **said}
    )
    return found.status, found.json


@stores
async def test_cancelling(engine: Engine) -> None:
    async with served(engine) as client:
        ident = await client.create()
        handle = await claim(engine)
        epoch = (await engine.read_execution_context(ExecutionId(ident)), 1)[1]
        missing = await cancel(client, ident, source="lease_holder")
        assert missing[0] == 400
        status, said = await cancel(client, ident, source="lease_holder", lease_epoch=epoch + 5)
        assert (status, said["kind"], said["retryable"]) == (409, "state_conflict", False)
        status, said = await cancel(client, ident)
        assert (status, said) == (
            200,
            {"Cancelled": {"execution_id": ident, "public_state": "cancelled"}},
        )
        assert await cancel(client, ident) == (status, said)
        assert (await cancel(client, new_id()))[0] == 404
        other = await client.post(
            f"/v1/executions/{new_id()}/cancel", {"execution_id": ident, "reason": "r"}
        )
        assert (other.status, other.error) == (
            400,
            "path execution_id does not match body execution_id",
        )
        done = await client.create()
        handle = await claim(engine)
        await engine.complete(handle, b"")
        status, said = await cancel(client, done)
        assert (status, said["kind"], said["retryable"]) == (409, "terminal", False)


@stores
async def test_priority_replay_and_revocation(engine: Engine) -> None:
    async with served(engine) as client:
        ident = await client.create()
        path = f"/v1/executions/{ident}"
        early = await client.post(f"{path}/replay")
        assert (early.status, early.json["kind"]) == (409, "execution_not_terminal")
        idle = await client.post(f"{path}/revoke-lease")
        assert (idle.status, idle.json) == (
            200,
            {"AlreadySatisfied": {"reason": "no_active_lease"}},
        )
        await claim(engine)
        late = await client.put(f"{path}/priority", {"new_priority": 1})
        assert (late.status, late.json["kind"], late.json["retryable"]) == (409, "contention", True)
        assert late.error == "contention: ExecutionNotEligible"
        revoked = await client.post(f"{path}/revoke-lease")
        assert revoked.status == 200
        assert set(revoked.json["Revoked"]) == {"lease_id", "lease_epoch"}
        assert all(isinstance(value, str) for value in revoked.json["Revoked"].values())
        for call in (client.put, client.post):
            name = "priority" if call == client.put else "replay"
            gone = await call(f"/v1/executions/{new_id()}/{name}", {"new_priority": 1})
            assert gone.status == 404
        assert (await client.post(f"/v1/executions/{new_id()}/revoke-lease")).status == 404


@stores
async def test_replayed_as_often_as_allowed(engine: Engine) -> None:
    async with served(engine) as client:
        ident = await client.create(policy={"max_replay_count": 1})
        for _ in range(2):
            await cancel(client, ident)
            last = await client.post(f"/v1/executions/{ident}/replay")
    assert (last.status, last.json["kind"], last.json["retryable"]) == (
        409,
        "max_replays_exhausted",
        False,
    )


@stores
async def test_tags(engine: Engine) -> None:
    async with served(engine) as client:
        ident = await client.create(tags={"team.name": "a"})
        changed = await client.put(f"/v1/executions/{ident}/tags", {"tags": {"team.size": "3"}})
        assert (changed.status, changed.json) == (200, {"set": 1})
        assert (await client.get(f"/v1/executions/{ident}/tags")).json == {
            "team.name": "a",
            "team.size": "3",
        }
        bad = await client.put(f"/v1/executions/{ident}/tags", {"tags": {"Bad Key": "3"}})
        assert (bad.status, bad.error.startswith("invalid_tag_key")) == (400, True)
        assert (
            await client.put(f"/v1/executions/{new_id()}/tags", {"tags": {"a.b": "c"}})
        ).status == 404


@stores
async def test_explain_and_history(engine: Engine, clock: ManualClock) -> None:
    async with served(engine) as client:
        ident, _ = await lost(engine, clock)
        why = await client.get(f"/v1/executions/{ident}/explain")
        assert why.status == 200 and isinstance(why.json, dict)
        history = await client.get(f"/v1/executions/{ident}/history?limit=1")
        assert history.status == 200 and len(history.json["items"]) == 1
        after = history.json["next_cursor"]
        more = await client.get(f"/v1/executions/{ident}/history?after={after}")
        assert more.status == 200 and history.json["items"][0] not in more.json["items"]
        attempts = await client.get(f"/v1/executions/{ident}/attempts")
        assert [each["attempt_index"] for each in attempts.json["items"]] == [0]
        assert (await client.get(f"/v1/executions/{ident}/attempts?after=0")).json["items"] == []
        for bad in (
            "history?after=nonsense",
            "attempts?after=x",
            "history?limit=0",
            "attempts?limit=1001",
        ):
            found = await client.get(f"/v1/executions/{ident}/{bad}")
            assert (found.status, bool(found.error)) == (400, True), bad


@stores
async def test_the_suspended_of_a_partition(engine: Engine) -> None:
    async with served(engine) as client:
        parked = await park(engine)
        found = await client.get(f"/v1/suspended?partition={parked.ident.partition_index}")
        assert (found.status, [each["execution_id"] for each in found.json["items"]]) == (
            200,
            [str(parked.ident)],
        )
        empty = await client.get("/v1/suspended?partition=200")
        assert (empty.status, empty.json["items"]) == (200, [])
        for bad in ("partition=65536", "partition=0&cursor=x", "partition=0&limit=1001", ""):
            assert (await client.get(f"/v1/suspended?{bad}")).status == 400
