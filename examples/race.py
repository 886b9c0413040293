"""A race: three mirrors are asked for the same file, the first answer wins, and the others are called off."""

import asyncio
import tempfile
from pathlib import Path
from uuid import uuid4

from flowfabric import (
    ClaimPolicy,
    CreateExecutionArgs,
    EdgePolicy,
    Engine,
    EngineError,
    ExecutionId,
    GraphEdge,
    SubmitFlowArgs,
    connect,
)
from flowfabric.cli.flow import draw

SECONDS = {"mirror-a": 5.0, "mirror-b": 0.2, "mirror-c": 5.0}


async def worker(engine: Engine, name: str) -> None:
    """Takes one job, works while renewing its lease, and stops as soon as the lease is gone."""
    policy = ClaimPolicy("downloader", name, lease_ttl_ms=30_000)
    for work in await engine.claim_many("downloads", (), policy, 1):
        mirror = work.execution_kind
        print(f"{name} asks {mirror}")
        try:
            for _ in range(round(SECONDS[mirror] / 0.05)):
                await asyncio.sleep(0.05)
                await engine.renew(work.handle)
            await engine.complete(work.handle, f"the file, from {mirror}".encode())
            print(f"{name} has the file from {mirror}")
        except EngineError as error:
            print(f"{name} stops asking {mirror}: {error.code}")


async def main(path: str) -> None:
    async with await connect(f"sqlite:///{path}", dev=True) as engine:
        flow = uuid4()
        mirrors = {name: ExecutionId.for_flow(flow) for name in SECONDS}
        unpack = ExecutionId.for_flow(flow)
        await engine.submit_flow(
            SubmitFlowArgs(
                flow_id=flow,
                nodes=[
                    *(CreateExecutionArgs(execution_id=i, lane_id="downloads", execution_kind=n) for n, i in mirrors.items()),
                    CreateExecutionArgs(execution_id=unpack, lane_id="unpacking", execution_kind="unpack"),
                ],
                edges=[GraphEdge(mirror, unpack, data_passing_ref="file") for mirror in mirrors.values()],
                policies={unpack: EdgePolicy.any_of()},
            )
        )

        await asyncio.gather(*(worker(engine, f"worker-{n}") for n in (1, 2, 3)))

        (work,) = await engine.claim_many("unpacking", (), ClaimPolicy("unpacker", "unpacker-1"), 1)
        print(f"unpacking: {work.input_payload.decode()}")
        await engine.complete(work.handle)
        await draw(engine, flow)

        assert work.input_payload == b"the file, from mirror-b"
        states = {member.id: member.public_state for member in await engine.flow_members(flow)}
        assert [states[i] for i in mirrors.values()] == ["cancelled", "completed", "cancelled"]
        assert states[unpack] == "completed"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(str(Path(folder) / "race.db")))
