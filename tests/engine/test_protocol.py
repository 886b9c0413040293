"""The public surface: the protocol, the exported names, the capability flags, and no
secrets in it.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any
from uuid import uuid4

import pytest

import flowfabric
from flowfabric.connect import connect, memory_engine
from flowfabric.engine.capabilities import FLAGS
from flowfabric.engine.engine import Engine
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.operation import operation
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.engine.proxy import wrapped
from flowfabric.errors import ConfigError, EngineError, RequiresDevMode, Unavailable
from flowfabric.loops.supervisor import Supervisor
from flowfabric.model.attempt import FailureClass
from flowfabric.model.budget import CreateBudgetArgs
from flowfabric.model.execution import CancelExecutionArgs, ChangePriorityArgs, ReplayExecutionArgs
from flowfabric.model.flow import CancelFlowArgs, CreateFlowArgs, WaitTimeout
from flowfabric.model.lease import RevokeLeaseArgs
from flowfabric.model.quota import BlockForAdmissionArgs, CreateQuotaPolicyArgs
from flowfabric.model.stream import BestEffortLive, DurableSummary, Frame, FrameKind
from flowfabric.remote.engine import RemoteEngine
from flowfabric.testing import ManualClock
from flowfabric.wire import operations as wire

from .helpers import (
    HOLDER_CALLS,
    LANE,
    TTL_MS,
    claim,
    completed,
    create,
    fence,
    fields,
    forged,
    grant_args,
    lost,
    new_id,
    other_uuid,
    registration,
    running,
    two_stores,
)

OPERATIONS = {
    name
    for kind in (EngineProtocol, LocalEngineProtocol)
    for name, value in vars(kind).items()
    if isinstance(value, operation)
}


# ---- the protocol


def test_each_operation_is_bound_to_the_part_that_declares_it(clock: ManualClock) -> None:
    engine = memory_engine(clock)
    for name in OPERATIONS:
        bound, declared = getattr(engine, name), getattr(Engine, name)
        assert bound.__func__ is declared
        assert type(bound.__self__).__name__ == declared.__qualname__.split(".")[0]


def test_an_operation_is_bound_once(clock: ManualClock) -> None:
    engine = memory_engine(clock)
    assert engine.renew is engine.renew


def test_a_remote_engine_has_the_operations_that_http_carries() -> None:
    over_http = {
        name for name, value in vars(EngineProtocol).items() if isinstance(value, operation)
    }
    assert over_http | {"ping", "server_time_ms"} == set(wire.OPERATIONS)
    assert not {name for name in OPERATIONS - over_http if hasattr(RemoteEngine, name)}


def test_every_engine_is_usable_where_the_protocol_is_asked_for(clock: ManualClock) -> None:
    engine: EngineProtocol = memory_engine(clock)
    assert engine.backend_label == "memory"
    assert isinstance(RemoteEngine("http://localhost:1"), EngineProtocol)
    assert isinstance(wrapped(engine, lambda name, call: None), LocalEngineProtocol)


# ---- the names


def test_the_exported_names_are_sorted_unique_and_there() -> None:
    assert flowfabric.__all__ == sorted(set(flowfabric.__all__))
    for name in flowfabric.__all__:
        assert getattr(flowfabric, name) is not None


def test_a_star_import_gives_exactly_the_exported_names() -> None:
    found: dict[str, Any] = {}
    exec("from flowfabric import *", found)
    assert set(found) - {"__builtins__"} == set(flowfabric.__all__)


def test_importing_the_package_needs_no_server_or_console() -> None:
    code = (
        "import sys, flowfabric; print([m for m in ('starlette', 'typer', 'rich', 'asyncpg', "
        "'pytest') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


# ---- opening


async def test_sqlite_opens_only_on_request(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FF_DEV_MODE", raising=False)
    path = str(tmp_path / "x.db")
    with pytest.raises(RequiresDevMode) as caught:
        await flowfabric.SqliteBackend.new(path)
    text = str(caught.value)
    assert (
        text.startswith("sqlite requires FF_DEV_MODE=1: ")
        and "dev=True" in text
        and "flowfabric demo" in text
    )
    for value in ("", "0", "true"):
        monkeypatch.setenv("FF_DEV_MODE", value)
        with pytest.raises(RequiresDevMode):
            await connect(f"sqlite:///{path}")
    monkeypatch.setenv("FF_DEV_MODE", "1")
    await (await connect(f"sqlite:///{path}")).close()
    monkeypatch.delenv("FF_DEV_MODE")
    await (await connect(path, dev=True)).close()


@pytest.mark.parametrize("url", ["", None, 5, "mysql://x", "ftp://x", "http://"])
async def test_an_unknown_url_is_a_config_error(url: Any) -> None:
    with pytest.raises(ConfigError, match="url"):
        await connect(url, dev=True)


@pytest.mark.parametrize(
    "url", ["host=h dbname=d password=hunter2", " dbname = d password=hunter2", "postgres:hunter2"]
)
async def test_a_postgres_url_opens_no_file(
    url: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be the name of a SQLite file otherwise, and work would be kept there."""
    monkeypatch.chdir(tmp_path)
    for opening in (connect(url, dev=True), connect(url), flowfabric.App(url).engine()):
        with pytest.raises(ConfigError, match=r"^url: .* use postgresql://") as caught:
            await opening
        assert "hunter2" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    for path in ("my host=h.db", "sqlite:///host=h.db"):
        await (await connect(path, dev=True)).close()


@pytest.mark.parametrize(
    "tuning", [{"pool_size": 0}, {"pool_size": "4"}, {"synchronous": "OFF"}, {"nonsense": 1}]
)
async def test_a_bad_tuning_is_a_config_error_that_names_it(
    tmp_path: Any, tuning: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=next(iter(tuning))):
        await flowfabric.SqliteBackend.new(str(tmp_path / "x.db"), dev=True, **tuning)


# ---- the flags


async def _in_flow(engine: Engine, act: Any) -> Any:
    flow = uuid4()
    await engine.create_flow(CreateFlowArgs(flow_id=flow))
    return await act(flow)


PROOFS: dict[str, Any] = {
    "cancel_execution": lambda e, i, h: e.cancel_execution(CancelExecutionArgs(execution_id=i)),
    "change_priority": lambda e, i, h: _fresh(
        e, lambda n: e.change_priority(ChangePriorityArgs(execution_id=n, new_priority=1))
    ),
    "replay_execution": lambda e, i, h: _ended(
        e, h, lambda: e.replay_execution(ReplayExecutionArgs(execution_id=i))
    ),
    "revoke_lease": lambda e, i, h: e.revoke_lease(RevokeLeaseArgs(execution_id=i)),
    "read_execution_state": lambda e, i, h: e.read_execution_state(i),
    "read_execution_info": lambda e, i, h: e.read_execution_info(i),
    "get_execution_result": lambda e, i, h: _ended(e, h, lambda: e.get_execution_result(i)),
    "budget_admin": lambda e, i, h: e.create_budget(CreateBudgetArgs(budget_id=uuid4())),
    "read_budget_usage_and_limits": lambda e, i, h: e.read_budget_usage_and_limits(uuid4()),
    "cancel_flow_header": lambda e, i, h: _in_flow(
        e, lambda f: e.cancel_flow_header(CancelFlowArgs(flow_id=f))
    ),
    "cancel_flow_wait_timeout": lambda e, i, h: _in_flow(
        e, lambda f: e.cancel_flow(f, wait=WaitTimeout(1_000))
    ),
    "cancel_flow_wait_indefinite": lambda e, i, h: _in_flow(
        e, lambda f: e.cancel_flow(f, wait=WaitTimeout(300_000))
    ),
    "quota_admin": lambda e, i, h: e.create_quota_policy(
        CreateQuotaPolicyArgs(quota_policy_id=uuid4())
    ),
    "stream_durable_summary": lambda e, i, h: e.append_frame(
        h, Frame(b"{}", FrameKind.Event, mode=DurableSummary())
    ),
    "stream_best_effort_live": lambda e, i, h: e.append_frame(
        h, Frame(b"", FrameKind.Event, mode=BestEffortLive(5_000))
    ),
    "release_admission": lambda e, i, h: e.release_admission(uuid4(), i),
    "read_quota_policy_limits": lambda e, i, h: _always(e.read_quota_policy_limits(uuid4())),
    "block_execution_for_admission": lambda e, i, h: e.block_execution_for_admission(
        BlockForAdmissionArgs(execution_id=i, reason="waiting_for_quota")
    ),
    "ack_cancel_member": lambda e, i, h: _always(e.ack_cancel_member(uuid4(), i)),
    "rotate_waitpoint_hmac_secret_all": lambda e, i, h: e.rotate_waitpoint_hmac_secret_all(
        "k1", "ab" * 32, 0
    ),
    "seed_waitpoint_hmac_secret": lambda e, i, h: e.seed_waitpoint_hmac_secret("k1", "ab" * 32),
    "list_pending_waitpoints": lambda e, i, h: e.list_pending_waitpoints(i),
    "subscribe_signal_delivery": lambda e, i, h: e.subscribe_signal_delivery(),
    "claim_for_worker": lambda e, i, h: e.claim_for_worker(LANE, "w", "i", (), 9),
    "issue_reclaim_grant": lambda e, i, h: e.issue_reclaim_grant(grant_args(i)),
    "prepare": lambda e, i, h: _always(e.prepare()),
    "subscribe_lease_history": lambda e, i, h: e.subscribe_lease_history(),
    "subscribe_completion": lambda e, i, h: e.subscribe_completion(),
    "register_worker": lambda e, i, h: e.register_worker(registration()),
    "heartbeat_worker": lambda e, i, h: e.heartbeat_worker("w1-i1"),
    "mark_worker_dead": lambda e, i, h: e.mark_worker_dead("w1-i1"),
    "list_expired_leases": lambda e, i, h: e.list_expired_leases(),
    "list_workers": lambda e, i, h: e.list_workers(),
}


async def _fresh(engine: Engine, call: Any) -> Any:
    return await call(await create(engine, lane_id="elsewhere"))


async def _ended(engine: Engine, handle: Any, call: Any) -> Any:
    await engine.complete(handle, b"r")
    return await call()


async def _always(call: Any) -> Any:
    await call
    return True


@two_stores
@pytest.mark.parametrize("flag", FLAGS)
async def test_a_flag_is_true_exactly_when_the_operation_works(engine: Engine, flag: str) -> None:
    supported = engine.capabilities().supports[flag]
    assert supported is (flag in PROOFS)
    ident, handle = await running(engine)
    if supported:
        assert await PROOFS[flag](engine, ident, handle) is not None
    else:
        with pytest.raises(Unavailable):
            await getattr(engine, flag)()


def test_the_flags_come_in_their_documented_order(clock: ManualClock) -> None:
    found = memory_engine(clock).capabilities()
    assert tuple(found.supports) == FLAGS and len(FLAGS) == 34
    assert set(found.identity) == {"family", "version", "rfc017_stage"}
    assert set(found.identity["version"]) == {"major", "minor", "patch"}


async def test_the_family_is_the_store(engine: Engine) -> None:
    assert engine.capabilities().identity["family"] == engine.backend_label


# ---- nothing secret in sight


def secrets_of(handle: Any) -> list[str]:
    held = fields(handle)
    return [str(held.lease_id), held.lease_id.hex, repr(handle.opaque)[2:40], handle.opaque.hex()]


async def test_a_handle_never_shows_its_bytes(engine: Engine) -> None:
    _, handle = await running(engine)
    work = (await engine.claim_many(LANE, (), flowfabric.ClaimPolicy("w", "i"), 1)) or [handle]
    for shown in (repr(handle), str(handle), f"{handle}", repr([handle]), repr(work)):
        for secret in secrets_of(handle):
            assert secret not in shown
    assert "bytes" in repr(handle)


async def test_work_never_shows_the_bytes_of_its_handle(engine: Engine) -> None:
    await create(engine)
    (work,) = await engine.claim_many(LANE, (), flowfabric.ClaimPolicy("w", "i"), 1)
    for secret in secrets_of(work.handle):
        assert secret not in repr(work)


def _other_tag(handle: Any) -> str:
    return "Postgres" if handle.backend == "Valkey" else "Valkey"


async def test_no_error_and_no_log_line_carries_a_lease_id(
    engine: Engine, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Every way a holder's call is refused, and a pass of every loop, at the most
    talkative level.
    """
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    handles: list[Any] = []

    async def provoke(handle: Any) -> None:
        for call in HOLDER_CALLS.values():
            try:
                await call(engine, handle)
            except EngineError as error:
                said.append(f"{error} {error!r} {vars(error)}")

    ident, handle = await running(engine)
    wrong = [
        forged(handle, lease_epoch=9),
        forged(handle, lease_id=other_uuid()),
        forged(handle, execution_id=new_id()),
    ]
    foreign = type(handle)(_other_tag(handle), handle.kind, handle.opaque)
    wrong += [forged(handle, attempt_index=3), foreign]
    wrong += [type(handle)(handle.backend, handle.kind, handle.opaque[:-3])]
    handles += [handle, *wrong]
    for shown in wrong[:-2]:
        await provoke(shown)
    await provoke(wrong[-2])
    await provoke(wrong[-1])
    await engine.cancel_execution(CancelExecutionArgs(execution_id=ident))
    await provoke(handle)
    done, ended = await completed(engine, lane_id="b")
    await provoke(ended)
    gone, silent = await lost(engine, clock, lane_id="c")
    await provoke(silent)
    handles += [ended, silent]
    stale = CancelExecutionArgs(
        execution_id=gone, source="x", lease_epoch=5, lease_id=fence(silent).lease_id
    )
    await engine.cancel_execution(stale)
    clock.advance(TTL_MS)
    await Supervisor(engine).run_once()
    last, held = await running(engine, lane_id="d")
    handles.append(held)
    with pytest.raises(EngineError) as caught:
        await engine.cancel_execution(
            CancelExecutionArgs(execution_id=last, source="x", lease_epoch=5)
        )
    said.append(str(caught.value))
    await engine.fail(held, "boom", FailureClass.PERMANENT)
    assert len(said) > 30 and done
    heard = "\n".join(said) + caplog.text
    for shown in handles[:1] + handles[-3:]:
        for secret in secrets_of(shown):
            assert secret not in heard


async def test_listings_leave_the_lease_ids_out(engine: Engine) -> None:
    ident, handle = await running(engine)
    page = await engine.list_attempts(ident)
    assert fields(handle).lease_id.hex not in repr(page).replace("-", "")
    assert (await engine.read_exec_core_fields(0, ident, ["current_lease_id"]))[
        "current_lease_id"
    ] is None


async def test_an_engine_is_a_context_manager(clock: ManualClock) -> None:
    async with memory_engine(clock) as engine:
        await claim(engine) if await create(engine) else None
        assert (
            await engine.read_total_attempt_count((await engine.list_executions(0)).items[0]) == 1
        )
