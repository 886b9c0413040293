"""Commands on a deployment whose namespaces are cells."""

from __future__ import annotations

import asyncio
import json

from tests.cells.helpers import claim, create, new_url, opened
from tests.cli.commands import flowfabric


async def test_commands_gather_over_cells() -> None:
    url = new_url()

    async def said(*args: str, code: int = 0) -> str:
        done = await asyncio.to_thread(flowfabric, *args, FF_URL=url)
        assert done.returncode == code, done
        return done.stdout

    async with opened(url) as engine:
        (mine, _), (theirs,) = await create(engine, "ann", 2), await create(engine, "bob")
        await claim(engine, "bob")
        listed = [json.loads(line) for line in (await said("list", "--json")).splitlines()]
        assert sorted(each["namespace"] for each in listed) == ["ann", "ann", "bob"]
        assert len((await said("list", "--namespace", "bob", "--json")).splitlines()) == 1
        told = await said("namespaces", "list", "--json")
        shown = [json.loads(line) for line in told.splitlines()]
        assert shown == [
            {"namespace": "ann", "executions": 2},
            {"namespace": "bob", "executions": 1},
            {"namespace": "default", "executions": 0},
        ]
        assert str(theirs.uuid) in await said("why", str(theirs.uuid)[:13])
        assert "3 executions checked" in await said("verify")
        top = await said("top", "--once", "--json")
        assert '"waiting":2' in top.replace(" ", ""), top
        erased = await said("namespaces", "erase", "ann", "--yes")
        assert erased == "erased 2 executions\n"
        assert await engine.read_execution_state(mine) is None
        assert len((await said("list", "--json")).splitlines()) == 1
