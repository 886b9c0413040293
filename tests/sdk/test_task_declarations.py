"""Invalid tasks, options and arguments are refused at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric import (
    App,
    Context,
    Engine,
    PayloadError,
)
from flowfabric.errors import ConfigError, ValidationError
from flowfabric.sdk.children import JOIN


@pytest.fixture
def app(engine: Engine) -> App:
    return App("memory://", engine=engine)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("x",), "Expected `int`, got `str` - at `$.n`"),
        ((), "missing a required argument: 'n'"),
        ((1, 2), "too many positional arguments"),
        ((object(),), "argument 'n': object cannot be stored; use builtins, a dataclass, "),
    ],
)
async def test_invalid_arguments_raise_at_submit(
    app: App, engine: Engine, args: tuple[Any, ...], said: str
) -> None:
    @app.task
    async def count(n: int) -> None: ...

    with pytest.raises(PayloadError) as caught:
        await count.submit(*args)
    assert "task count" in str(caught.value) and said in str(caught.value)


async def test_missing_argument_error_advises_to_annotate_the_context(
    app: App, engine: Engine
) -> None:
    async def waits(ctx, n: int) -> None: ...  # type: ignore[no-untyped-def]
    def blocks(context) -> None: ...  # type: ignore[no-untyped-def]
    async def plain(n: int) -> None: ...
    async def given(ctx: int, n: int) -> None: ...

    for function, args, said in (
        (
            waits,
            (5,),
            "'n'; ctx has no annotation, so it is an argument; write ctx: flowfabric.Context "
            "for the run's context",
        ),
        (blocks, (), "; write context: flowfabric.sync.Context for the run's context"),
        (plain, (), "missing a required argument: 'n'"),
        (given, (5,), "missing a required argument: 'n'"),
    ):
        with pytest.raises(PayloadError) as caught:
            await app.task(function).submit(*args)
        assert str(caught.value).endswith(said)


def test_unsupported_types_raise_when_the_task_is_declared() -> None:
    app = App("memory://")

    def custom(thing: asyncio.Lock) -> None: ...
    def starred(*things: int) -> None: ...
    def optioned(key: str) -> None: ...
    async def late(n: int, ctx: Context) -> None: ...
    def given() -> asyncio.Lock: ...  # type: ignore[empty-body]

    for function, said in (
        (custom, "argument 'thing': asyncio.locks.Lock cannot be stored"),
        (starred, "*args and **kwargs"),
        (optioned, "has the name of an option of submit"),
        (late, "the Context comes first"),
        (given, "its result: asyncio.locks.Lock cannot be stored"),
    ):
        with pytest.raises(PayloadError) as caught:
            app.task(function)
        assert said in str(caught.value)


def test_options_are_checked_when_the_task_is_declared() -> None:
    app = App("memory://")
    app.task(name="one")(lambda: None)
    for options, said in (
        ({"name": "one"}, "already declared"),
        ({"timeout": "soon"}, "timeout: a span like"),
        ({"retry": 3}, "retry: a Retry"),
        ({"lanes": "x"}, "lanes: unknown option"),
    ):
        with pytest.raises(ConfigError) as caught:
            app.task(**options)(lambda: None)  # type: ignore[call-overload]
        assert said in str(caught.value)


@pytest.mark.parametrize("ident", ["nonsense", "{fp:1}:x", "", None, 5, b"x"])
def test_invalid_run_id_is_refused(ident: Any) -> None:
    with pytest.raises(
        ValidationError,
        match=r"invalid_input: id: the uuid of a run, or its full id as str\(run.id\) gives it",
    ):
        App("memory://").run(ident)


@pytest.mark.parametrize("key", ["App.X", "app", "app.", ".x", "a b.c", "\u00e9.x"])
async def test_invalid_tag_is_refused_at_submit(app: App, engine: Engine, key: str) -> None:
    task = app.task(name="work")(lambda: None)
    with pytest.raises(ValidationError, match="lower case"):
        await task.submit(tags={key: "1"})
    with pytest.raises(ValidationError, match="lower case"):
        await task.submit(tags={"a.b": "1", key: "1"})
    assert (await engine.store.dump(["ff_exec_core"]))["ff_exec_core"] == []
    run = await task.submit(tags={"app.x": "1"})
    assert await engine.get_execution_tag(run.id, "app.x") == "1"


def test_invalid_child_call_raises_at_once() -> None:
    app = App("memory://")

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    with pytest.raises(PayloadError, match="Expected `int`, got `str`"):
        double.call("x")
    for option in ({"key": "k"}, {"connection": object()}):
        with pytest.raises(ConfigError, match="not accepted for a child"):
            double.call(1, **option)
    with pytest.raises(ConfigError, match="the name is reserved"):
        app.task(name=JOIN)(lambda: None)
