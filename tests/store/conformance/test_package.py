"""The suite in another project: it passes on a correct store and fails on a wrong one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from flowfabric.testing import conformance

MODULE = """
import pytest
from flowfabric.plan import Applied
from flowfabric.store.memory import MemoryStore
from flowfabric.testing.conformance import *

{store}

@pytest.fixture
def store(clock):
    return OwnStore(clock)
"""
CORRECT = """
import asyncio

class OwnStore(MemoryStore):
    \"\"\"Opens on the event loop that uses it, as a store with connections does.\"\"\"
    async def prepare(self):
        self.loop = asyncio.get_running_loop()
    async def commit(self, plan):
        assert self.loop is asyncio.get_running_loop()
        return await super().commit(plan)
"""
DEFECTS = {
    "a refused plan is answered as applied": """
    async def commit(self, plan):
        answer = await super().commit(plan)
        return answer if isinstance(answer, Applied) else Applied(self.clock())
""",
    "plans of a group are committed one by one": """
    async def commit_together(self, plans):
        return (await self.commit_many(plans))[-1]
""",
    "an error fails the whole batch": """
    async def commit_many(self, plans):
        return [await self.commit(plan) for plan in plans]
""",
    "a sweep ignores its limit": """
    async def sweeps(self, first, wanted):
        return await super().sweeps(first, [(plan, 1_000) for plan, _ in wanted])
""",
    "waiters are not woken": """
    def __init__(self, clock):
        super().__init__(clock)
        self.hub.ring = self.hub.due = lambda *_: None
""",
    "the injected clock is not used": """
    def __init__(self, clock):
        super().__init__()
""",
    "columns of a dump come in another order": """
    async def dump(self, tables):
        return {t: [row[::-1] for row in rows] for t, rows in (await super().dump(tables)).items()}
""",
    "a closed store still answers": """
    async def close(self):
        self.hub.ring_all()
""",
}
ISOLATED = ("-p", "no:flowfabric", "-p", "no:anyio", "-p", "no:hypothesispytest")


def test_every_module_of_the_package_is_part_of_the_suite() -> None:
    folder = Path(str(conformance.__file__)).parent
    written = [
        name
        for path in folder.glob("*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert sorted(written) == sorted(conformance.CASES)


def test_a_correct_store_passes_every_case(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_store=MODULE.format(store=CORRECT))
    run = pytester.runpytest_subprocess(*ISOLATED, "-W", "error", "-p", "no:cacheprovider")
    assert set(run.parseoutcomes()) == {"passed"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(pytester: pytest.Pytester, defect: str) -> None:
    store = f"class OwnStore(MemoryStore):{DEFECTS[defect]}"
    pytester.makepyfile(test_store=MODULE.format(store=store))
    run = pytester.runpytest_inprocess(
        "--disable-plugin-autoload", "-p", "no:cacheprovider", "-W", "error", "-x"
    )
    assert run.parseoutcomes()["failed"] == 1


def test_a_failed_case_shows_the_values_that_were_compared(pytester: pytest.Pytester) -> None:
    store = f"class OwnStore(MemoryStore):{DEFECTS['a sweep ignores its limit']}"
    pytester.makepyfile(test_store=MODULE.format(store=store))
    run = pytester.runpytest_subprocess(*ISOLATED, "-x", "-k", "sweep")
    run.stdout.re_match_lines([r"E\s+AssertionError: assert 9 == 3"])


@pytest.mark.parametrize("module", ["flowfabric", "flowfabric.testing", "flowfabric.store.port"])
def test_pytest_is_imported_only_with_the_suite(module: str) -> None:
    code = f"import sys, {module}; print('pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
