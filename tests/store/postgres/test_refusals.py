"""What the server refuses, as errors of ours: each provoked on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from flowfabric.errors import (
    Conflict,
    ConflictKind,
    EngineError,
    ResourceExhausted,
    TransportError,
    Unavailable,
    ValidationError,
    ValidationKind,
)
from flowfabric.plan import Applied
from flowfabric.rules.executions.create import SET_LANE_STATE
from flowfabric.store.postgres import connections
from flowfabric.store.postgres.connections import Options
from tests.postgres import database

from .helpers import (
    INSERT_LANE,
    as_user,
    asking_for,
    lane,
    lanes,
    meddled,
    one,
    opened,
    plain,
    until_somebody_waits,
)

TOO_LARGE = 2**70
END_THE_WAITING = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND datname = current_database()"""


@contextmanager
def role(options: Options, rights: str = "", limits: str = "") -> Iterator[Options]:
    """Somebody who may log in, and what else is said."""
    with meddled(
        options,
        f"CREATE ROLE t_somebody LOGIN {limits}; {rights}",
        "DROP OWNED BY t_somebody; DROP ROLE t_somebody",
    ):
        yield as_user(options, "t_somebody")


READING = "GRANT SELECT ON ALL TABLES IN SCHEMA public TO t_somebody"
WRITING = "GRANT ALL ON ALL TABLES IN SCHEMA public TO t_somebody"


@contextmanager
def failing_inserts(options: Options, code: str) -> Iterator[None]:
    change = f"""CREATE FUNCTION t_full() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '{code}'; END $$;
        CREATE TRIGGER t_full BEFORE INSERT ON ff_lane_registry FOR EACH ROW EXECUTE FUNCTION t_full()"""
    with meddled(options, change, "DROP TRIGGER t_full ON ff_lane_registry; DROP FUNCTION t_full"):
        yield


@pytest.mark.parametrize(
    ("code", "what"),
    [("53100", "postgres disk"), ("53200", "postgres memory"), ("53400", "a postgres setting")],
)
async def test_no_room_is_exhaustion_and_passes(options: Options, code: str, what: str) -> None:
    async with opened(options) as store:
        with failing_inserts(options, code):
            with pytest.raises(ResourceExhausted) as caught:
                await store.commit(lane("a"))
            assert caught.value.pool == what and caught.value.retryable
            assert await lanes(store) == []
        assert isinstance(await store.commit(lane("a")), Applied)


async def test_a_sort_that_may_not_use_the_disk_is_exhaustion(options: Options) -> None:
    """The server's own word for a limit that was reached."""
    async with opened(asking_for(options, temp_file_limit="0", work_mem="64kB")) as store:
        with pytest.raises(ResourceExhausted):
            await store.execute_for_test(
                "SELECT n FROM generate_series(1, 100000) AS n ORDER BY md5(n::text)"
            )
        assert await lanes(store) == []


async def test_too_many_connections_at_the_start(options: Options) -> None:
    with role(options, WRITING, "CONNECTION LIMIT 0") as limited:
        with pytest.raises(ResourceExhausted) as caught:
            async with opened(limited):
                pass
        assert caught.value.pool == "postgres connections" and caught.value.retryable


async def test_too_many_connections_later_on_is_waited_for(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "RECONNECT_FOR_S", 0.05)
    with role(options, WRITING, "CONNECTION LIMIT 1") as limited, plain(options) as db:
        async with opened(limited) as store:
            assert isinstance(await store.commit(lane("a")), Applied), "the one connection there is"
            with pytest.raises(ResourceExhausted):
                await lanes(store)
            monkeypatch.setattr(connections, "RECONNECT_FOR_S", 10.0)
            reading = asyncio.ensure_future(lanes(store))
            db.execute("ALTER ROLE t_somebody CONNECTION LIMIT 10")
            assert await reading == ["a"]


async def test_a_replica_takes_no_changes_but_answers_questions(options: Options) -> None:
    async with opened(asking_for(options, default_transaction_read_only="on")) as store:
        with pytest.raises(TransportError) as caught:
            await store.commit(lane("a"))
        assert "primary" in str(caught.value)
        assert not caught.value.retryable and not caught.value.doubtful
        assert await lanes(store) == []


async def test_a_missing_table_is_told_as_a_schema_that_does_not_fit() -> None:
    async with opened(Options(database("tables")), check=False) as store:
        for call in (store.commit(lane("a")), lanes(store)):
            with pytest.raises(Unavailable) as caught:
                await call
            assert "schema_version" in str(caught.value) and "flowfabric migrate" in str(
                caught.value
            )


async def test_a_missing_column_is_told_as_a_schema_that_does_not_fit(options: Options) -> None:
    rename = "ALTER TABLE ff_lane_registry RENAME COLUMN {} TO {}"
    with meddled(
        options, rename.format("registered_by", "t_gone"), rename.format("t_gone", "registered_by")
    ):
        async with opened(options) as store:
            with pytest.raises(Unavailable, match="schema_version"):
                await store.commit(lane("a"))


async def test_too_few_rights_are_named(options: Options) -> None:
    with role(options, READING) as reader:
        async with opened(reader) as store:
            with pytest.raises(TransportError, match=r"too few rights.*ff_lane_registry") as caught:
                await store.commit(lane("a"))
            assert caught.value.backend_kind == "auth" and not caught.value.retryable
            assert await lanes(store) == []


async def test_no_rights_at_all_are_told_at_the_start(options: Options) -> None:
    with role(options) as stranger:
        with pytest.raises(TransportError, match="too few rights") as caught:
            async with opened(stranger):
                pass
        assert caught.value.backend_kind == "auth"


@pytest.mark.parametrize(
    "misfit",
    [lane("b\0"), lane("b", at=TOO_LARGE), lane("b", at="one")],
    ids=["nul", "large", "text"],
)  # type: ignore[arg-type]
async def test_a_value_that_does_not_fit_fails_only_its_own_plan(
    options: Options, misfit: object
) -> None:
    async with opened(options) as store:
        answers = await store.commit_many([lane("a"), misfit, lane("c")])  # type: ignore[list-item]
        assert [type(answer) for answer in answers] == [Applied, ValidationError, Applied]
        assert answers[1].kind is ValidationKind.CORRUPTION  # type: ignore[union-attr]
        assert await lanes(store) == ["a", "c"]


async def test_callers_that_ride_together_do_not_share_a_misfit(options: Options) -> None:
    async with opened(options) as store:
        plans = [lane(f"l{n}", at=TOO_LARGE if n == 3 else 1) for n in range(8)]
        answers = await asyncio.gather(
            *(store.commit(plan) for plan in plans), return_exceptions=True
        )
        assert store._coalescer.batches < len(plans), "they did ride together"
        assert [n for n, answer in enumerate(answers) if not isinstance(answer, Applied)] == [3]
        assert isinstance(answers[3], ValidationError)


async def test_a_misfit_takes_its_whole_transaction_along(options: Options) -> None:
    async with opened(options) as store:
        with pytest.raises(ValidationError):
            await store.commit_together([lane("a"), lane("b\0")])
        assert await lanes(store) == []


async def test_a_unique_rule_that_is_broken_is_a_conflict_of_one_plan(options: Options) -> None:
    unique = (
        "CREATE UNIQUE INDEX t_one_draining ON ff_lane_registry (state) WHERE state = 'draining'"
    )
    with meddled(options, unique, "DROP INDEX t_one_draining"):
        async with opened(options) as store:
            await store.commit_many([lane("a"), lane("b"), lane("c")])
            wanted = {"a": "draining", "b": "draining", "c": "paused"}
            answers = await store.commit_many(
                [SET_LANE_STATE(lane_id=name, state=state) for name, state in wanted.items()]
            )
            assert [type(answer) for answer in answers] == [Applied, Conflict, Applied]
            assert isinstance(answers[1], Conflict)
            assert (answers[1].kind, answers[1].detail) == (ConflictKind.UNIQUE, "t_one_draining")


async def test_another_rule_that_is_broken_is_a_value_that_does_not_fit(options: Options) -> None:
    add = "ALTER TABLE ff_lane_registry ADD CONSTRAINT t_early CHECK (registered_at_ms < 9)"
    with meddled(options, add, "ALTER TABLE ff_lane_registry DROP CONSTRAINT t_early"):
        async with opened(options) as store:
            answers = await store.commit_many([lane("a"), lane("b", at=9), lane("c")])
            assert [type(answer) for answer in answers] == [Applied, ValidationError, Applied]
            assert "t_early" in str(answers[1])


async def test_ending_a_writer_in_the_middle_of_a_statement_leaves_a_doubt(
    options: Options,
) -> None:
    with plain(options, autocommit=False) as other, plain(options) as db:
        other.execute(INSERT_LANE, ("a",))
        async with opened(options) as store:
            waiting = asyncio.ensure_future(store.commit(lane("a")))
            await until_somebody_waits(db)
            assert one(db, END_THE_WAITING)
            with pytest.raises(TransportError) as caught:
                await waiting
            assert caught.value.doubtful and caught.value.retryable
            other.rollback()
            assert await lanes(store) == []
            assert isinstance(await store.commit(lane("a")), Applied), "on a new connection"


async def test_every_refusal_is_an_error_of_ours(options: Options) -> None:
    async with opened(options) as store:
        for sql in (
            "SELECT 1 / 0",
            "SELEC 1",
            "SELECT nothing()",
            "SELECT 'x'::int",
            "COMMIT AND CHAIN",
        ):
            with pytest.raises(EngineError):
                await store.execute_for_test(sql)
