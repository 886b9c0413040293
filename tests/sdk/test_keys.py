"""Keys of submissions: how long they last, and which submissions conflict."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric import App, Engine, IdempotencyConflict
from flowfabric.errors import ConfigError, TransportError
from flowfabric.model.execution import CreateExecutionArgs, Duplicate
from flowfabric.sdk.schedules import Ticker
from flowfabric.sdk.serialization import Signature
from flowfabric.testing import ManualClock

from .helpers import unanswered, worked_off

HOUR_MS = 3_600_000


@pytest.fixture
def app(engine: Engine) -> App:
    return App("memory://", engine=engine)


async def test_the_same_key_with_other_arguments_names_the_run_that_has_it(
    app: App, engine: Engine
) -> None:
    @app.task
    async def send(to: str, body: str = "hello") -> str:
        return f"{to}: {body}"

    first = await send.submit("a", key="k")
    assert (await send.submit(to="a", body="hello", key="k")).id == first.id
    with pytest.raises(
        IdempotencyConflict,
        match=r"task send: key 'k' belongs to run .*, which has other arguments",
    ) as caught:
        await send.submit("b", key="k")
    assert caught.value.run_id == first.id
    assert await worked_off(app) == 1
    assert await app.run(caught.value.run_id, "send").result() == "a: hello"
    with pytest.raises(IdempotencyConflict):
        await send.submit("b", key="k")


@pytest.mark.meets("retention", "delay")
async def test_a_key_lasts_as_long_as_its_run_is_kept(
    app: App, engine: Engine, clock: ManualClock
) -> None:
    @app.task
    async def send(to: str) -> None: ...

    first = await send.submit("a", key="k", delay="3d")
    clock.advance(25 * HOUR_MS)
    await engine.forget_idempotency_keys()
    assert (await send.submit("a", key="k")).id == first.id
    with pytest.raises(IdempotencyConflict):
        await send.submit("b", key="k")


@pytest.mark.parametrize(
    ("ttl", "hours"), [({}, 24), ({"key_ttl": "7d"}, 168), ({"key_ttl": "1h"}, 1)]
)
async def test_a_key_lasts_for_its_ttl_after_its_run_is_removed(
    app: App, engine: Engine, clock: ManualClock, ttl: dict[str, Any], hours: int
) -> None:
    @app.task
    async def send(to: str) -> None: ...

    first = await send.submit("a", key="k", **ttl)
    assert await worked_off(app) == 1
    assert await engine.trim_retention(send.lane, 0) == 1
    clock.advance(hours * HOUR_MS - 1)
    await engine.forget_idempotency_keys()
    assert (await send.submit("a", key="k", **ttl)).id == first.id
    clock.advance(1)
    second = await send.submit("b", key="k", **ttl)
    assert second.id != first.id
    assert await worked_off(app) == 1


async def test_a_key_taken_by_a_plain_create_has_no_arguments_to_compare(
    app: App, engine: Engine
) -> None:
    @app.task
    async def send(to: str) -> None: ...

    first = await send.submit("a", key="k")
    plain = CreateExecutionArgs(
        execution_id=type(first.id).solo("x"), idempotency_key="send:k", input_payload=b"{}"
    )
    assert await engine.create_execution(plain) == Duplicate(first.id)
    await engine.create_execution(
        CreateExecutionArgs(execution_id=plain.execution_id, idempotency_key="send:plain")
    )
    assert (await send.submit("a", key="plain")).id == plain.execution_id


@pytest.mark.meets("deploy", "crash")
async def test_tick_submitted_by_an_older_deploy_is_not_submitted_again(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def deployed(version: str) -> App:
        app = App("memory://", engine=engine)

        @app.schedule("* * * * *", arguments={"version": version})
        @app.task
        async def tick(version: str) -> None:
            ran.append(version)

        return app

    old, new = deployed("old"), deployed("new")
    await Ticker(old, engine).submit_due()
    clock.advance(60_000)
    with monkeypatch.context() as patch:
        unanswered(patch, engine, "move_schedule", 1, landed=False)
        with pytest.raises(TransportError):
            await Ticker(old, engine).submit_due()
    await Ticker(new, engine).submit_due()
    await worked_off(new)
    assert ran == ["old"]
    clock.advance(60_000)
    await Ticker(new, engine).submit_due()
    await worked_off(new)
    assert ran == ["old", "new"]


def signature(name: str = "send") -> Signature[Any]:
    def send(
        to: str,
        weight: float = 1.0,
        names: set[str] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None: ...

    return Signature(name, send, App, type(None), "")


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("a", 2.0), {"names": {"x", "y"}, "extra": {"b": 1, "a": 2}}),
        (("a", 2), {"names": {"y", "x"}, "extra": {"a": 2, "b": 1}}),
        ((), {"extra": {"a": 2, "b": 1}, "names": {"y", "x"}, "weight": 2, "to": "a"}),
    ],
)
def test_digest_does_not_depend_on_how_arguments_are_written(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    usual = signature().digest(("a", 2.0, {"x", "y"}, {"a": 2, "b": 1}), {})
    assert signature().digest(args, kwargs) == usual
    assert signature("other").digest(args, kwargs) != usual


def test_a_default_that_is_given_or_added_later_does_not_change_the_digest() -> None:
    def before(to: str) -> None: ...

    assert signature().digest(("a",), {}) == signature().digest(("a", 1), {"names": None})
    assert signature().digest(("a",), {}) == Signature("send", before, App, type(None), "").digest(
        ("a",), {}
    )


def test_default_that_cannot_be_stored_is_ignored_by_the_digest() -> None:
    def send(to: str = object()) -> None: ...  # type: ignore[assignment]

    made: Signature[Any] = Signature("send", send, App, type(None), "")
    assert made.digest(("a",), {}) != made.digest((), {})


async def test_key_ttl_without_a_key_is_refused(app: App, engine: Engine) -> None:
    @app.task
    async def send(to: str) -> None: ...

    with pytest.raises(ConfigError, match=r"key_ttl: the lifetime of a key"):
        await send.submit("a", key_ttl="1h")
    with pytest.raises(ConfigError, match="key_ttl"):
        await send.submit_many(["a"], key_ttl="1h")
    with pytest.raises(ConfigError, match="key_ttl"):
        send.call("a", key_ttl="1h")
    with pytest.raises(ConfigError, match="key_ttl"):
        app.flow("f").add(send, "a", key_ttl="1h")
