"""One job from creation to result on an embedded SQLite."""

import asyncio
import tempfile
from pathlib import Path

from flowfabric import ClaimPolicy, CreateExecutionArgs, ExecutionId, connect


async def main(path: str) -> None:
    async with await connect(f"sqlite:///{path}", dev=True) as engine:
        job = ExecutionId.solo("greetings")
        await engine.create_execution(
            CreateExecutionArgs(execution_id=job, lane_id="greetings", input_payload=b"hello")
        )

        policy = ClaimPolicy("worker", "worker-1", lease_ttl_ms=30_000)
        for work in await engine.claim_many("greetings", (), policy, 10):
            await engine.complete(work.handle, work.input_payload.upper())

        print(await engine.get_execution_result(job))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(str(Path(folder) / "jobs.db")))
