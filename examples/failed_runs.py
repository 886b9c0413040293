"""Runs that failed are counted by their error, and those with one error are retried together."""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path

from flowfabric import App, Fatal, Worker

ADDRESSES = {"Ann": "ann@example.com", "Bob": ""}


async def main(path: str) -> None:
    app = App(f"sqlite:///{path}")

    @app.task(lane="mail")
    async def invoice(customer: str) -> str:
        if customer not in ADDRESSES:
            raise Fatal(f"unknown customer: {customer}")
        if not ADDRESSES[customer]:
            raise Fatal("no address")
        return f"sent to {ADDRESSES[customer]}"

    async with app:
        async with app.flow("invoices") as flow:
            for customer in ("Ann", "Bob", "Eve"):
                flow.add(invoice, customer, node=customer)
        async with Worker(app):
            print("the flow is", await flow.wait())

            errors: Counter[str] = Counter()
            async for info in app.runs.all(task=invoice, state="failed", created="1h"):
                errors[info.error or ""] += 1
            for error, count in sorted(errors.items()):
                print(f"{count} x {error}")

            ADDRESSES["Bob"] = "bob@example.com"
            trial = await app.bulk("retry", task=invoice, error="no address", dry_run=True)
            print(f"{(await trial.wait()).matched} of {errors.total()} would be retried")
            job = await app.bulk("retry", task=invoice, error="no address", reason="it is known")
            print(f"{(await job.wait()).changed} retried")

            await flow.wait()
            for node, end in (await flow.results(return_exceptions=True)).items():
                print(f"{node}: {end if isinstance(end, str) else type(end).__name__}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(str(Path(folder) / "mail.db")))
