"""Three models race for one answer under a shared token budget; the first answer wins."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID, uuid4

from flowfabric import (
    ClaimPolicy,
    CreateBudgetArgs,
    CreateExecutionArgs,
    EdgePolicy,
    Engine,
    EngineError,
    ExecutionId,
    GraphEdge,
    HardBreach,
    SubmitFlowArgs,
    UsageDimensions,
    connect,
)

QUESTION = "why is the sky blue"
ANSWERS = {
    "terse": ("because air scatters blue light more than red", 0.03),
    "chatty": ("well " * 60 + "that is a long story", 0.02),
    "slow": ("the molecules of the atmosphere scatter short waves best", 0.30),
}


async def fake_model(name: str) -> AsyncIterator[str]:
    """No network: a model that streams one word after the other, each of them a token."""
    text, pause = ANSWERS[name]
    for word in text.split():
        await asyncio.sleep(pause)
        yield word


async def ask(engine: Engine, budget: UUID, worker: str) -> None:
    """Claims one model and reports every token; stops when its lease or the budget ends."""
    (work,) = await engine.claim_many("models", (), ClaimPolicy("asker", worker), 1)
    name, words = work.execution_kind, list[str]()
    try:
        async for word in fake_model(name):
            words.append(word)
            key = f"{work.execution_id}:{len(words)}"
            used = await engine.report_usage(
                work.handle, budget, UsageDimensions(output_tokens=1, dedup_key=key)
            )
            if isinstance(used, HardBreach):
                print(f"{name}: stopped by the budget after {len(words) - 1} tokens")
                return
            await engine.renew(work.handle)
        await engine.complete(work.handle, " ".join(words).encode())
        print(f"{name}: answered with {len(words)} tokens")
    except EngineError as error:
        print(f"{name}: cancelled after {len(words)} tokens ({error.code})")


async def main(path: str) -> None:
    async with await connect(f"sqlite:///{path}", dev=True) as engine:
        flow, budget = uuid4(), uuid4()
        await engine.create_budget(
            CreateBudgetArgs(
                budget_id=budget,
                scope_type="flow",
                dimensions=["output_tokens"],
                hard_limits=[60],
                soft_limits=[0],
            )
        )
        models = {name: ExecutionId.for_flow(flow) for name in ANSWERS}
        reply = ExecutionId.for_flow(flow)
        nodes = [
            CreateExecutionArgs(
                execution_id=ident,
                lane_id="models",
                execution_kind=name,
                input_payload=QUESTION.encode(),
            )
            for name, ident in models.items()
        ]
        nodes.append(
            CreateExecutionArgs(execution_id=reply, lane_id="replies", execution_kind="reply")
        )
        edges = [GraphEdge(ident, reply, data_passing_ref="answer") for ident in models.values()]
        await engine.submit_flow(
            SubmitFlowArgs(
                flow_id=flow, nodes=nodes, edges=edges, policies={reply: EdgePolicy.any_of()}
            )
        )

        await asyncio.gather(*(ask(engine, budget, f"asker-{n}") for n in range(len(models))))

        (work,) = await engine.claim_many("replies", (), ClaimPolicy("replier", "replier-1"), 1)
        print(f"the answer: {work.input_payload.decode()}")
        await engine.complete(work.handle)
        status = await engine.get_budget_status(budget)
        spent, limit = status.usage["output_tokens"], status.hard_limits["output_tokens"]
        print(f"{spent} of {limit} tokens spent by all three together")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(str(Path(folder) / "race.db")))
