"""A race: three mirrors serve the same file, the first one wins, the others are cancelled."""

import asyncio
import tempfile
from pathlib import Path

from flowfabric import App, RunCancelled, Worker, race
from flowfabric.cli.flow import draw

SECONDS = {"mirror-a": 20.0, "mirror-b": 0.2, "mirror-c": 20.0}


async def main(path: str) -> None:
    app = App(f"sqlite:///{path}")

    @app.task
    async def download(mirror: str) -> str:
        print(f"asks {mirror}")
        try:
            await asyncio.sleep(SECONDS[mirror])
        except asyncio.CancelledError:
            print(f"stops asking {mirror}")
            raise
        return f"the file, from {mirror}"

    @app.task
    async def unpack(file: str) -> str:
        return f"unpacked {file}"

    async with app:
        async with Worker(app):
            async with app.flow("race") as flow:
                mirrors = [flow.add(download, mirror) for mirror in SECONDS]
                unpacked = flow.add(unpack, race(*mirrors))
            print(await unpacked.result())
            ends = await asyncio.gather(
                *(mirror.result() for mirror in mirrors), return_exceptions=True
            )

        await draw(await app.engine(), flow.id)
        assert await unpacked.result() == "unpacked the file, from mirror-b"
        assert [type(end) for end in ends] == [RunCancelled, str, RunCancelled]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(str(Path(folder) / "race.db")))
