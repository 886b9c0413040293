"""A deployment waits for the signed links of two people, holds no worker, and then continues."""

import asyncio
import secrets
import tempfile
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from uuid import UUID, uuid4

from flowfabric import (
    ClaimPolicy,
    Count,
    CountKind,
    CreateExecutionArgs,
    DeliverSignalArgs,
    Engine,
    EngineError,
    ExecutionId,
    FreshWaitpoint,
    ReasonCode,
    SuspendArgs,
    Suspended,
    TimeoutBehavior,
    connect,
)
from flowfabric.model.waitpoint import SignalAccepted

LANE = "deployments"
POLICY = ClaimPolicy("deployer", "deployer-1")
HOUR_MS = 3_600_000
SAID = {
    "appended_to_waitpoint": "one of two",
    "appended_to_waitpoint_duplicate": "already counted",
    "resume_condition_satisfied": "that makes two, the deployment continues",
}


def link_to(work: ExecutionId, waitpoint: UUID, token: str) -> str:
    return f"https://deploy.example/approve/{work}/{waitpoint}?token={token}"


async def follow(engine: Engine, link: str, signed_in_as: str) -> str:
    """The page behind the link: the token allows the signal, the session names its source."""
    found = urlsplit(link)
    work, waitpoint = found.path.split("/")[-2:]
    signal = DeliverSignalArgs(
        execution_id=ExecutionId(work),
        waitpoint_id=UUID(waitpoint),
        signal_id=uuid4(),
        waitpoint_token=parse_qs(found.query)["token"][0],
        signal_name="approved",
        source_type="user",
        source_identity=signed_in_as,
    )
    try:
        answer = await engine.deliver_signal(signal)
    except EngineError as error:
        print(f"{signed_in_as:<8} is refused: {error.code}")
        return error.code
    assert isinstance(answer, SignalAccepted)
    print(f"{signed_in_as:<8} approves: {SAID[answer.effect]}")
    return answer.effect


async def ask(engine: Engine, release: str, patience_ms: int) -> tuple[ExecutionId, str]:
    """Claims a deployment and suspends until two people approve; it fails when time runs out."""
    await engine.create_execution(
        CreateExecutionArgs(execution_id=ExecutionId.solo(LANE), lane_id=LANE)
    )
    (work,) = await engine.claim_many(LANE, (), POLICY, 1)
    print(f"worker   has built {release} and asks for two approvals")
    question = FreshWaitpoint(uuid4(), "go-live")
    parked = await engine.suspend(
        work.handle,
        SuspendArgs(
            suspension_id=uuid4(),
            waitpoints=[question],
            resume_condition=Count(2, CountKind.DISTINCT_SOURCES, ("go-live",), "approved"),
            reason_code=ReasonCode.WAITING_FOR_APPROVAL,
            timeout_at=int(time.time() * 1000) + patience_ms,
            timeout_behavior=TimeoutBehavior.FAIL,
        ),
    )
    assert isinstance(parked, Suspended)
    assert await engine.claim(LANE, (), POLICY) is None
    return work.execution_id, link_to(
        work.execution_id, question.waitpoint_id, parked.details.waitpoint_token
    )


async def approved(engine: Engine) -> None:
    work, link = await ask(engine, "release 42", HOUR_MS)
    forged = link[:-1] + ("0" if link[-1] != "0" else "1")
    assert await follow(engine, forged, "mallory") == "invalid_token"
    assert await follow(engine, link, "alice") == "appended_to_waitpoint"
    assert await follow(engine, link, "alice") == "appended_to_waitpoint_duplicate"
    assert await follow(engine, link, "bob") == "resume_condition_satisfied"
    assert await follow(engine, link, "carol") == "target_not_signalable"

    (again,) = await engine.claim_many(LANE, (), POLICY, 1)
    approvers = [signal.source_identity for signal in await engine.observe_signals(again.handle)]
    print(f"worker   continues the same attempt, approved by {' and '.join(approvers)}")
    await engine.complete(again.handle, b"release 42 is live")

    after = await engine.describe_execution(work)
    assert after is not None and after.public_state == "completed"
    assert (
        approvers == ["alice", "bob"]
        and again.attempt_index == 0
        and after.total_attempt_count == 1
    )


async def ignored(engine: Engine) -> None:
    work, link = await ask(engine, "release 43", 300)
    assert await follow(engine, link, "alice") == "appended_to_waitpoint"
    async for ended in await engine.subscribe_completion():
        if ended.execution_id == work:
            break
    assert await engine.read_execution_state(work) == "failed"
    print("timeout  no second approval in time: release 43 has failed")
    assert await follow(engine, link, "bob") == "target_not_signalable"


async def main(path: str) -> None:
    async with await connect(f"sqlite:///{path}", dev=True) as engine:
        await engine.seed_waitpoint_hmac_secret("k1", secrets.token_hex(32))
        await approved(engine)
        await ignored(engine)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(str(Path(folder) / "deploy.db")))
