"""A token budget: summaries stop when a day's tokens are spent, and continue the next day."""

import asyncio
import tempfile
from pathlib import Path
from uuid import UUID, uuid4

from flowfabric import (
    ClaimPolicy,
    CreateBudgetArgs,
    CreateExecutionArgs,
    Engine,
    ExecutionId,
    HardBreach,
    HardLimitAction,
    RecordSpendArgs,
    SoftBreach,
    connect,
)

DOCUMENTS = [f"chapter {n}: " + "and then something happened " * (20 + 5 * n) for n in range(1, 7)]


def fake_model(text: str) -> tuple[str, int, int]:
    """No network: the first words are the summary, and every word is a token."""
    words = text.split()
    summary = " ".join(words[:6])
    return summary, len(words), len(summary.split())


async def work_until_idle(engine: Engine, budget: UUID) -> None:
    while works := await engine.claim_many(
        "summaries", (), ClaimPolicy("summariser", "summariser-1"), 1
    ):
        (work,) = works
        summary, read, written = fake_model(work.input_payload.decode())
        charged = await engine.record_spend(
            RecordSpendArgs(
                budget_id=budget,
                execution_id=work.execution_id,
                deltas={"tokens": read + written},
                idempotency_key=f"{work.execution_id}:{work.attempt_index}",
            )
        )
        if isinstance(charged, HardBreach):
            print(
                f"  held: {read + written} tokens more would exceed {charged.hard_limit}, "
                f"{charged.current_usage} are spent"
            )
            continue
        if isinstance(charged, SoftBreach):
            print(f"  warning: {charged.current_usage} tokens spent, {charged.soft_limit} planned")
        await engine.complete(work.handle, summary.encode())
        print(f"  done: {summary!r} for {read + written} tokens")


async def main(path: str) -> None:
    async with await connect(f"sqlite:///{path}", dev=True) as engine:
        budget = uuid4()
        await engine.create_budget(
            CreateBudgetArgs(
                budget_id=budget,
                dimensions=["tokens"],
                soft_limits=[400],
                hard_limits=[600],
                on_hard_limit=HardLimitAction.SUSPEND_EXECUTION,
                reset_interval_ms=86_400_000,
            )
        )
        jobs = [ExecutionId.solo("summaries") for _ in DOCUMENTS]
        for job, text in zip(jobs, DOCUMENTS, strict=True):
            args = CreateExecutionArgs(
                execution_id=job, lane_id="summaries", input_payload=text.encode()
            )
            await engine.create_execution(args)

        for day in ("today", "tomorrow"):
            print(f"{day}:")
            await work_until_idle(engine, budget)
            status = await engine.get_budget_status(budget)
            spent, limit = status.usage["tokens"], status.hard_limits["tokens"]
            print(
                f"  {spent} of {limit} tokens spent, {status.breach_count} reports refused so far"
            )
            await engine.reset_budget(budget)  # the engine does this at midnight

        states = [await engine.read_execution_state(job) for job in jobs]
        print("all summaries:", ", ".join(sorted({str(state) for state in states})))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(str(Path(folder) / "budget.db")))
