"""Conflicts with other programs: short ones are retried, lasting ones are contention."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from msgspec import structs

from flowfabric.errors import Contention, ContentionKind, TimedOut
from flowfabric.plan import Applied, Refused
from flowfabric.store.postgres import batch_runner
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.errors import MAX_TRIES, is_conflict

from .helpers import (
    INSERT_LANE,
    asking_for,
    lane,
    lanes,
    meddled,
    one,
    opened,
    plain,
    until,
    until_somebody_waits,
)

CONFLICTS = ("40001", "40P01", "55P03")
_UNDO = "DROP TRIGGER t_trouble ON ff_lane_registry; DROP FUNCTION t_trouble; DROP SEQUENCE t_tries"
_TRIGGER = """CREATE SEQUENCE t_tries;
CREATE FUNCTION t_trouble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NEW; END $$;
CREATE TRIGGER t_trouble AFTER INSERT ON ff_lane_registry
    FOR EACH ROW EXECUTE FUNCTION t_trouble()"""
_CLOSES_THE_CIRCLE = """IF nextval('t_tries') = 1 THEN
    PERFORM pg_advisory_xact_lock(8);
    WHILE NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted)
        LOOP PERFORM pg_sleep(0.002); END LOOP;
    PERFORM pg_advisory_xact_lock(7);
END IF;"""
_IN_THE_TRIGGER = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 8 AND granted"
)


@contextmanager
def trigger(options: Options, body: str) -> Iterator[psycopg.Connection[Any]]:
    """A sequence is not rolled back, so it counts the tries."""
    with meddled(options, _TRIGGER.format(body=body), _UNDO) as db:
        yield db


def raising(code: str, times: int) -> str:
    trouble = f"RAISE EXCEPTION 'trouble' USING ERRCODE = '{code}'"
    return f"IF nextval('t_tries') <= {times} THEN {trouble}; END IF;"


@pytest.mark.parametrize("code", CONFLICTS)
@pytest.mark.parametrize("times", range(1, MAX_TRIES))
async def test_a_conflict_that_passes_is_retried(options: Options, code: str, times: int) -> None:
    with trigger(options, raising(code, times)) as db:
        async with opened(options) as store:
            assert isinstance(await store.commit(lane("a")), Applied)
            assert await lanes(store) == ["a"]
        assert one(db, "SELECT last_value FROM t_tries") == times + 1


@pytest.mark.parametrize("code", CONFLICTS)
async def test_a_lasting_conflict_is_contention_after_three_tries(
    options: Options, code: str
) -> None:
    with trigger(options, raising(code, 1_000)) as db:
        async with opened(options) as store:
            for commit in (store.commit(lane("a")), store.commit_together([lane("b")])):
                with pytest.raises(Contention) as caught:
                    await commit
                assert (
                    caught.value.kind is ContentionKind.RETRY_EXHAUSTED and caught.value.retryable
                )
            assert await lanes(store) == []
        assert one(db, "SELECT last_value FROM t_tries") == 2 * MAX_TRIES


async def test_a_failed_write_wakes_no_waiter(options: Options) -> None:
    with trigger(options, raising("40001", 1_000)):
        async with opened(options) as store:
            rung: list[object] = []
            store.hub.announce = lambda topics, dues: rung.extend([*topics, *dues])  # type: ignore[method-assign]
            answers: list[object] = [*await store.commit_many([lane("a"), lane("b")])]
            assert [type(answer) for answer in answers] == [Contention, Contention]
            assert rung == []


async def test_a_lock_held_throughout_is_contention_and_reads_go_on(options: Options) -> None:
    with plain(options, autocommit=False) as other:
        other.execute(INSERT_LANE, ("a",))
        async with opened(asking_for(options, lock_timeout="20ms")) as store:
            with pytest.raises(Contention) as caught:
                await store.commit(lane("a"))
            assert caught.value.kind is ContentionKind.RETRY_EXHAUSTED
            assert await lanes(store) == []
            other.rollback()
            assert isinstance(await store.commit(lane("a")), Applied)
            assert await lanes(store) == ["a"]


async def test_a_lock_released_after_the_first_try_is_retried(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    with plain(options, autocommit=False) as other:
        other.execute(INSERT_LANE, ("a",))
        met: list[str] = []

        def noticed(error: BaseException) -> bool:
            met.append(getattr(error, "sqlstate", ""))
            other.rollback()
            return is_conflict(error)

        monkeypatch.setattr(batch_runner, "is_conflict", noticed)
        async with opened(asking_for(options, lock_timeout="20ms")) as store:
            assert isinstance(await store.commit(lane("a")), Applied)
            assert met == ["55P03"]


async def test_a_serialization_failure_is_retried(options: Options) -> None:
    """Behind a pooler the store sets no isolation level, so the database may set another."""
    strict = asking_for(
        structs.replace(options, pooler=True), default_transaction_isolation="repeatable read"
    )
    with plain(options, autocommit=False) as other, plain(options) as looking:
        other.execute(INSERT_LANE, ("a",))
        async with opened(strict) as store:
            waiting = asyncio.ensure_future(store.commit(lane("a")))
            await until_somebody_waits(looking)
            other.commit()
            assert isinstance(await waiting, Refused), (
                "the second try sees what the first could not be ordered with"
            )
            assert await lanes(store) == ["a"]


async def test_the_victim_of_a_deadlock_is_retried(options: Options) -> None:
    with trigger(options, _CLOSES_THE_CIRCLE) as looking, plain(options, autocommit=False) as other:
        other.execute("SET deadlock_timeout = '60s'")
        other.execute("SELECT pg_advisory_xact_lock(7)")
        async with opened(asking_for(options, deadlock_timeout="500ms")) as store:
            commit = asyncio.ensure_future(store.commit(lane("a")))
            await until(lambda: one(looking, _IN_THE_TRIGGER))
            await asyncio.to_thread(other.execute, INSERT_LANE, ("a",))
            assert not commit.done()
            other.rollback()
            assert isinstance(await commit, Applied)
            assert await lanes(store) == ["a"]
        assert one(looking, "SELECT last_value FROM t_tries") > 1


async def test_a_statement_that_took_too_long_changed_nothing(options: Options) -> None:
    with plain(options, autocommit=False) as other:
        other.execute(INSERT_LANE, ("a",))
        async with opened(asking_for(options, statement_timeout="50ms")) as store:
            with pytest.raises(TimedOut) as caught:
                await store.commit(lane("a"))
            assert caught.value.op == "postgres statement"
            other.rollback()
            assert await lanes(store) == []
            assert isinstance(await store.commit(lane("a")), Applied)
