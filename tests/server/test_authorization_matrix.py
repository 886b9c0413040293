"""Every route with every credential, from a table written by hand."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec import structs
from yarl import URL

from flowfabric.engine.engine import Engine
from flowfabric.server.route import Route
from flowfabric.server.routes import ROUTES
from flowfabric.wire.operations import OPERATIONS, Role
from tests.engine.flow_helpers import empty_flow
from tests.engine.helpers import running
from tests.server.client import Client, memory, served, token_of, tokens_file
from tests.server.examples import World, request

OPEN = """
GET /healthz
GET /readyz
GET /openapi.json
GET /docs
GET /approve/{id}/{waitpoint_id}
POST /approve/{id}/{waitpoint_id}
"""
READ = """
GET /metrics
GET /v1/capabilities
GET /v1/config
GET /v1/executions
GET /v1/executions/{id}
GET /v1/executions/{id}/state
GET /v1/executions/{id}/result
GET /v1/executions/{id}/wait
GET /v1/executions/{id}/explain
GET /v1/executions/{id}/history
GET /v1/executions/{id}/attempts
GET /v1/executions/{id}/tags
GET /v1/executions/{id}/pending-waitpoints
GET /v1/executions/{id}/attempts/{idx}/stream
GET /v1/executions/{id}/attempts/{idx}/stream/tail
GET /v1/executions/{id}/attempts/{idx}/stream/events
GET /v1/executions/{id}/attempts/{idx}/summary
GET /v1/suspended
GET /v1/completions
GET /v1/events/leases
GET /v1/events/signals
GET /v1/events/operators
GET /v1/flows/{id}
GET /v1/flows/{id}/members
GET /v1/flows/{id}/edges
GET /v1/budgets/{id}
GET /v1/workers
GET /v1/lanes
GET /v1/lanes/{lane}
GET /v1/schedules
ping server_time_ms describe_execution explain_execution read_execution_info read_execution_state
read_execution_context
read_outcome wait_for_outcome get_execution_result list_attempts read_stream tail_stream
read_followed read_summary
list_pending_waitpoints
read_budget_ledger resolve_execution_flow_id history describe_flow flow_members flow_edges
read_flow_summary list_workers
read_schedules read_events list_lanes read_lane list_executions list_flows list_suspended
list_open_waitpoints list_approvals
list_expired_leases list_limit_scopes get_budget_status read_budget_usage_and_limits
read_quota_policy_limits resolve_execution find_executions count_executions
read_execution_summary list_budgets list_quotas
"""
SUBMIT = """
POST /v1/executions
POST /v1/executions/batch
POST /v1/executions/{id}/cancel
POST /v1/executions/{id}/signal
POST /v1/flows
POST /v1/flows/graph
POST /v1/flows/{id}/members
POST /v1/flows/{id}/edges
POST /v1/flows/{id}/edges/apply
POST /v1/flows/{id}/cancel
PUT /v1/flows/{id}/edge-groups/{downstream}
POST /v1/budgets
POST /v1/budgets/{id}/usage
POST /v1/quotas
create_execution submit_flow create_flow create_executions cancel_execution deliver_signal
create_budget create_quota_policy
attach_limit
cancel_flow add_execution_to_flow stage_dependency_edge apply_dependency_to_child
"""
WORK = """
POST /v1/workers/{worker_id}/claim
POST /v1/claims/call-off
POST /v1/executions/{id}/reclaim
claim_many wait_for_work are_held renew progress complete record_step complete_many
complete_and_claim delay cancel wait_children
create_waitpoint fail suspend append_frame append_frames report_usage observe_signals read_steps
read_last_suspension
read_resume_signals
register_worker heartbeat_worker mark_worker_dead begin_schedule move_schedule
read_held_waitpoint_token
"""
OPERATE = """
PUT /v1/executions/{id}/tags
PUT /v1/executions/{id}/priority
POST /v1/executions/{id}/replay
POST /v1/executions/{id}/revoke-lease
GET /v1/executions/{id}/waitpoints/{waitpoint_id}/token
POST /v1/budgets/{id}/reset
POST /v1/lanes/{lane}/pause
POST /v1/lanes/{lane}/resume
POST /v1/lanes/{lane}/drain
POST /v1/schedules/{name}/pause
POST /v1/schedules/{name}/resume
pause_schedule resume_schedule replay_execution change_priority revoke_lease set_execution_tag
set_execution_tags
close_waitpoint deliver_approval_signal pause_lane resume_lane
drain_lane update_budget update_quota_policy reset_budget close_quota open_quota detach_limit
read_waitpoint_token
POST /v1/bulk
GET /v1/bulk
GET /v1/bulk/{id}
POST /v1/bulk/{id}/stop
start_bulk list_bulk read_bulk stop_bulk
move_execution release_execution delete_execution restart_from_step
"""
ADMIN = """
POST /v1/admin/rotate-waitpoint-secret
rotate_waitpoint_hmac_secret_all list_waitpoint_hmac_kids
erase_namespace
"""
FREE = {
    "GET /v1/capabilities",
    "GET /v1/config",
    "GET /v1/completions",
    "GET /v1/events/leases",
    "GET /v1/events/signals",
    "GET /v1/events/operators",
    "POST /v1/claims/call-off",
    "POST /v1/engine/ping",
    "POST /v1/engine/server_time_ms",
    "POST /v1/engine/read_events",
}
"""Routes that a token of another namespace may call: free of tenant data, or filtered by it."""


def _rows(text: str, role: Role | None) -> dict[str, Role | None]:
    found: dict[str, Role | None] = {}
    for line in text.split("\n"):
        words = (
            [line]
            if re.match(r"(GET|POST|PUT) ", line)
            else [f"POST /v1/engine/{word}" for word in line.split()]
        )
        found |= dict.fromkeys(words, role)
    return found


TABLE: dict[str, Role | None] = {
    **_rows(OPEN, None),
    **_rows(READ, Role.READ),
    **_rows(SUBMIT, Role.SUBMIT),
    **_rows(WORK, Role.WORK),
    **_rows(OPERATE, Role.OPERATE),
    **_rows(ADMIN, Role.ADMIN),
}
IMPLIED = {
    "read": {Role.READ},
    "submit": {Role.READ, Role.SUBMIT},
    "work": {Role.READ, Role.WORK},
    "operate": {Role.READ, Role.OPERATE, Role.SUBMIT},
    "admin": set(Role),
}
CREDENTIALS = ["none", "wrong", *IMPLIED, "elsewhere"]
ENTRIES = [{"name": name, "roles": [name]} for name in IMPLIED]
ELSEWHERE = {
    "name": "elsewhere",
    "roles": ["admin"],
    "namespace": "elsewhere",
    "lanes": ["elsewhere"],
}


def _name(route: Route) -> str:
    return f"{route.method} {route.path}"


def test_every_route_has_a_row_and_every_row_a_route() -> None:
    assert sorted(TABLE) == sorted(_name(route) for route in ROUTES)
    assert {f"POST /v1/engine/{name}" for name in OPERATIONS} <= set(TABLE)


@pytest.mark.parametrize("route", ROUTES, ids=_name)
def test_the_least_role(route: Route) -> None:
    assert route.role == TABLE[_name(route)]


@asynccontextmanager
async def a_world(engine: Engine, folder: Path) -> AsyncIterator[tuple[Client, World]]:
    file = tokens_file(folder, *ENTRIES, ELSEWHERE)
    async with served(engine, api_token="", api_tokens_file=file) as client:
        graph = await empty_flow(engine)
        ident, handle = await running(engine, execution_id=graph.mint("a"))
        yield client, World(ident, graph.flow, handle)


async def status_of(client: Client, route: Route, world: World) -> tuple[int, bytes]:
    """What is pushed without an end is left after its head."""
    said: dict[str, Any] = request(route, world)
    where = URL(client.url + said.pop("path"))
    headers = client.headers(said.pop("headers", {}))
    timeout = aiohttp.ClientTimeout(total=20)
    async with client.session.request(
        route.method, where, headers=headers, timeout=timeout, **said
    ) as found:
        pushed = found.headers.get("content-type", "").startswith("text/event-stream")
        answer = (found.status, b"" if pushed else await found.read())
        if pushed:
            found.close()
        return answer


def _token(credential: str) -> str | None:
    return {"none": None, "wrong": "this-is-not-the-token"}.get(credential, token_of(credential))


@memory
@pytest.mark.parametrize("credential", CREDENTIALS)
async def test_each_credential_on_every_route(
    engine: Engine, credential: str, tmp_path: Path
) -> None:
    wrong = []
    async with a_world(engine, tmp_path) as (client, world):
        caller = client.with_token(_token(credential))
        for route in ROUTES:
            needed, name = TABLE[_name(route)], _name(route)
            status, body = await status_of(caller, route, world)
            if needed is None:
                good = status not in (401, 403)
            elif credential in ("none", "wrong"):
                good = status == 401
            elif credential == "elsewhere":
                good = status == 200 if name in FREE else status == 404 and b"not found: " in body
            elif needed in IMPLIED[credential]:
                good = status not in (401, 403, 415, 422) and status < 500
            else:
                good = status == 403 and b'"forbidden"' in body
            if not good:
                wrong.append((name, status, body[:300]))
    assert wrong == []


@memory
async def test_entities_of_other_namespaces_look_missing(engine: Engine, tmp_path: Path) -> None:
    """A token of one namespace cannot tell another's from what was never there, on any route."""
    different = []
    async with a_world(engine, tmp_path) as (client, world):
        caller = client.with_token(token_of("elsewhere"))
        nowhere = structs.replace(
            world, execution=type(world.execution).of(world.execution.partition_index, world.flow)
        )
        for route in ROUTES:
            if TABLE[_name(route)] is None or _name(route) in FREE:
                continue
            there, not_there = (
                await status_of(caller, route, world),
                await status_of(caller, route, nowhere),
            )
            if there != not_there:
                different.append((_name(route), there, not_there))
    assert different == []
