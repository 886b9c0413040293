"""The effect of each layer on calls."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

import pytest

from flowfabric import (
    CircuitBreakerLayer,
    Engine,
    MetricsLayer,
    RateLimitLayer,
    TracingLayer,
    with_layers,
)
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import (
    ConfigError,
    Conflict,
    ConflictKind,
    Contention,
    ContentionKind,
    EngineError,
    NotFound,
    ResourceExhausted,
    StateError,
    StateKind,
    TimedOut,
    TransportError,
    Unavailable,
    ValidationError,
    ValidationKind,
)
from flowfabric.ids import ExecutionId
from flowfabric.middleware import Err, Layer, Ok

from .helpers import AWAY, Hands, Moody, Noted, Written, pinged

# ---- stacking


async def test_the_last_layer_is_outermost_and_all_are_called(moody: Moody) -> None:
    said: list[str] = []
    assert await pinged(moody.under(Noted("inner", said), Noted("outer", said))) == "ok"
    assert said == [
        "outer before ping",
        "inner before ping",
        "inner after ping 2.0 NoneType",
        "outer after ping 2.0 NoneType",
    ]


async def test_a_refused_call_is_not_made_and_is_reported(moody: Moody) -> None:
    said: list[str] = []
    layers = Noted("inner", said), Noted("middle", said, NotFound("flow")), Noted("outer", said)
    assert await pinged(moody.under(*layers)) == "flow not found"
    assert said == [
        "outer before ping",
        "middle before ping",
        "middle after ping 0.0 NotFound",
        "outer after ping 0.0 NotFound",
    ]
    assert moody.asked == 0


async def test_an_answer_is_not_lost_by_telling_of_it(
    memory: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Layer):
        def after(self, method: str, elapsed: float, error: BaseException | None) -> None:
            raise RuntimeError("the sink is full")

    assert await pinged(with_layers(memory, Broken())) == "ok"
    (record,) = caplog.records
    assert (vars(record)["method"], vars(record)["layer"]) == ("ping", "Broken")


async def test_a_cancelled_call_is_reported(moody: Moody) -> None:
    said: list[str] = []
    moody.errors = [asyncio.CancelledError()]
    with pytest.raises(asyncio.CancelledError):
        await moody.under(Noted("one", said)).ping()
    assert said == ["one before ping", "one after ping 2.0 CancelledError"]


STRAIGHT: dict[str, Callable[[LocalEngineProtocol], Any]] = {
    "backend_label": lambda engine: engine.backend_label,
    "durability": lambda engine: engine.durability,
    "telemetry": lambda engine: engine.telemetry,
    "capabilities": lambda engine: engine.capabilities(),
    "subscribe_completion": lambda engine: engine.subscribe_completion(),
    "work_bell": lambda engine: engine.work_bell("default"),
    "prepare": lambda engine: engine.prepare(),
    "follow_stream": lambda engine: engine.follow_stream(ExecutionId.solo("default")),
    "close": lambda engine: engine.close(),
}


@pytest.mark.parametrize("name", STRAIGHT)
async def test_getters_and_subscriptions_are_not_layered(memory: Engine, name: str) -> None:
    said: list[str] = []
    answer = STRAIGHT[name](with_layers(memory, Noted("no", said, NotFound("flow"))))
    if inspect.isawaitable(answer):
        await answer
    assert said == []


async def test_no_layers_no_wrapping(memory: Engine) -> None:
    assert with_layers(memory) is memory


async def test_open_and_close_bypass_layers(memory: Engine) -> None:
    async with with_layers(memory, Noted("no", [], NotFound("flow"))):
        pass


# ---- tracing


@pytest.mark.parametrize(
    ("level", "number"),
    [
        ("trace", logging.DEBUG),
        ("debug", logging.DEBUG),
        ("info", logging.INFO),
        ("warn", logging.WARNING),
    ],
)
async def test_a_record_for_each_call(
    moody: Moody, caplog: pytest.LogCaptureFixture, level: str, number: int
) -> None:
    moody.errors = [AWAY]
    engine = moody.under(TracingLayer(level))
    with caplog.at_level(logging.DEBUG, "flowfabric.middleware"):
        await pinged(engine)
        await pinged(engine)
    fields = ("span", "event", "method", "elapsed_us", "ok")
    assert [
        (record.levelno, *(vars(record)[name] for name in fields)) for record in caplog.records
    ] == [
        (number, "ff_sdk.backend", "engine_backend.call", "ping", 2_000_000, False),
        (number, "ff_sdk.backend", "engine_backend.call", "ping", 2_000_000, True),
    ]
    assert caplog.messages[0] == "engine_backend.call method=ping elapsed_us=2000000 ok=false"


async def test_below_the_level_no_line_is_logged(
    moody: Moody, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "flowfabric.middleware"):
        await pinged(moody.under(TracingLayer("debug")))
    assert not caplog.records


# ---- metrics

CATEGORIES: list[tuple[BaseException, str]] = [
    (NotFound("execution"), "not_found"),
    (ValidationError(ValidationKind.INVALID_INPUT), "validation"),
    (Contention(ContentionKind.LEASE_CONFLICT), "contention"),
    (Conflict(ConflictKind.CYCLE_DETECTED), "conflict"),
    (StateError(StateKind.TERMINAL), "state"),
    (AWAY, "transport"),
    (Unavailable("tail"), "unavailable"),
    (TypeError("an argument too many"), "bug"),
    (ConfigError("no such token"), "bug"),
    (TimedOut("ping", "5 s"), "unknown"),
    (ResourceExhausted("disk", 1), "unknown"),
    (asyncio.CancelledError(), "unknown"),
]


@pytest.mark.parametrize(("error", "category"), CATEGORIES, ids=lambda value: type(value).__name__)
async def test_errors_are_recorded_by_category(
    moody: Moody, error: BaseException, category: str
) -> None:
    sink = Written()
    moody.errors = [error]
    await pinged(moody.under(MetricsLayer(sink)))
    assert sink.calls == [("ping", 2.0, Err(category))]


async def test_answers_are_recorded_and_refusals_of_other_layers(
    moody: Moody, hands: Hands
) -> None:
    sink = Written()
    engine = moody.under(RateLimitLayer(0.1, clock=lambda: 0.0), MetricsLayer(sink))
    await pinged(engine)
    await pinged(engine)
    assert sink.calls == [("ping", 2.0, Ok()), ("ping", 0.0, Err("validation"))]


# ---- rate limits

EXHAUSTED = "invalid_input: rate-limit: method {} bucket {} exhausted"


def by_kind(method: str) -> str:
    return {"ping": "reads", "drain_lane": "writes"}.get(method, "others")


def outcomes(layer: RateLimitLayer, hands: Hands, calls: list[tuple[float, str]]) -> list[str]:
    """Of calls, each so many seconds after the one before."""
    found = []
    for wait, method in calls:
        hands.now += wait
        try:
            layer.before(method)
            found.append("ok")
        except ValidationError as error:
            found.append(str(error) if error.retryable else "not to be asked again")
    return found


NO_PING, NO_READS, NO_OTHERS = (
    EXHAUSTED.format("ping", "default"),
    EXHAUSTED.format("ping", "reads"),
    EXHAUSTED.format("read_lane", "default"),
)
P = "ping"
LIMITS: list[tuple[dict[str, Any], list[tuple[float, str]], list[str]]] = [
    ({"per_second": 2}, [(0, P), (0, P), (0, P)], ["ok", "ok", NO_PING]),
    (
        {"per_second": 2},
        [(0, P), (0, P), (0.25, P), (0.25, P), (0, P)],
        ["ok", "ok", NO_PING, "ok", NO_PING],
    ),
    ({"per_second": 2}, [(3600, P), (0, P), (0, P)], ["ok", "ok", NO_PING]),
    ({"per_second": 0}, [(0, P), (0.5, P), (0.5, P)], ["ok", NO_PING, "ok"]),
    ({"per_second": -3}, [(0, P), (0, P)], ["ok", NO_PING]),
    ({"per_second": 1}, [(0, P), (-5, P), (5, P), (1, P)], ["ok", NO_PING, NO_PING, "ok"]),
    (
        {"classifier": by_kind, "buckets": {"reads": 1}},
        [(0, P), (0, P), (0, "drain_lane")],
        ["ok", NO_READS, "ok"],
    ),
    (
        {"classifier": by_kind, "buckets": {"reads": 1}, "default": 1},
        [(0, "drain_lane"), (0, "read_lane"), (0, P)],
        ["ok", NO_OTHERS, "ok"],
    ),
]


@pytest.mark.parametrize(("settings", "calls", "expected"), LIMITS)
def test_buckets(
    hands: Hands, settings: dict[str, Any], calls: list[tuple[float, str]], expected: list[str]
) -> None:
    assert outcomes(RateLimitLayer(**settings, clock=hands), hands, calls) == expected


# ---- the breaker


OPEN = "ff-sdk-layer: circuit open"
AWAY_TEXT, GONE_TEXT = str(AWAY), "flow not found"
OK = None
GONE = NotFound("flow")
Step = tuple[float, BaseException | None, str]
BREAKS: list[tuple[str, list[Step]]] = [
    (
        "opens at the threshold",
        [(0, AWAY, AWAY_TEXT), (0, AWAY, AWAY_TEXT), (0, OK, OPEN), (0, OK, OPEN)],
    ),
    (
        "a success resets",
        [(0, AWAY, AWAY_TEXT), (0, OK, "ok"), (0, AWAY, AWAY_TEXT), (0, OK, "ok")],
    ),
    (
        "others do not count",
        [(0, GONE, GONE_TEXT), (0, GONE, GONE_TEXT), (0, GONE, GONE_TEXT), (0, OK, "ok")],
    ),
    (
        "others do not reset",
        [(0, AWAY, AWAY_TEXT), (0, GONE, GONE_TEXT), (0, AWAY, AWAY_TEXT), (0, OK, OPEN)],
    ),
    (
        "stays open for the cool-down",
        [
            (0, AWAY, AWAY_TEXT),
            (0, AWAY, AWAY_TEXT),
            (29.9, OK, OPEN),
            (0.1, OK, "ok"),
            (0, OK, "ok"),
        ],
    ),
    (
        "reopens",
        [
            (0, AWAY, AWAY_TEXT),
            (0, AWAY, AWAY_TEXT),
            (30, AWAY, AWAY_TEXT),
            (29.9, OK, OPEN),
            (0.1, OK, "ok"),
        ],
    ),
    (
        "counts from none again",
        [
            (0, AWAY, AWAY_TEXT),
            (0, AWAY, AWAY_TEXT),
            (30, OK, "ok"),
            (0, AWAY, AWAY_TEXT),
            (0, OK, "ok"),
        ],
    ),
    (
        "a probe that says nothing of the store",
        [
            (0, AWAY, AWAY_TEXT),
            (0, AWAY, AWAY_TEXT),
            (30, GONE, GONE_TEXT),
            (0, AWAY, AWAY_TEXT),
            (0, OK, OPEN),
        ],
    ),
    (
        "a probe that is cancelled",
        [
            (0, AWAY, AWAY_TEXT),
            (0, AWAY, AWAY_TEXT),
            (30, asyncio.CancelledError("stop"), "stop"),
            (0, OK, "ok"),
            (0, OK, "ok"),
        ],
    ),
]


@pytest.mark.parametrize("steps", [steps for _, steps in BREAKS], ids=[name for name, _ in BREAKS])
async def test_the_circuit(moody: Moody, hands: Hands, steps: list[Step]) -> None:
    """Calls with their delay, the answer of the store, and the expected result."""
    engine = moody.under(CircuitBreakerLayer(threshold=2, clock=hands))
    for wait, error, heard in steps:
        hands.now += wait
        moody.errors, before = [error], moody.asked
        assert await pinged(engine) == heard
        assert moody.asked - before == (heard != OPEN)


async def test_the_defaults(moody: Moody, hands: Hands) -> None:
    moody.errors = [AWAY] * 5
    engine = moody.under(CircuitBreakerLayer(clock=hands))
    assert [await pinged(engine) for _ in range(6)] == [AWAY_TEXT] * 5 + [OPEN]
    hands.now += 30
    assert await pinged(engine) == "ok"


async def test_a_refused_call_is_not_doubtful(moody: Moody, hands: Hands) -> None:
    moody.errors = [AWAY]
    engine = moody.under(CircuitBreakerLayer(threshold=1, clock=hands))
    await pinged(engine)
    with pytest.raises(TransportError) as refused:
        await engine.ping()
    assert (refused.value.backend, refused.value.retryable, refused.value.doubtful) == (
        "ff-sdk-layer",
        True,
        False,
    )


class Held:
    """Pings wait until they are let go, each with its end."""

    def __init__(self, breaker: Layer) -> None:
        self._breaker = breaker
        self.waiting: list[asyncio.Future[None]] = []

    async def ping(self) -> str:
        try:
            self._breaker.before("ping")
        except EngineError as error:
            self._breaker.after("ping", 0.0, error)
            return str(error)
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(gate)
        try:
            await gate
        except EngineError as error:
            self._breaker.after("ping", 1.0, error)
            return str(error)
        self._breaker.after("ping", 1.0, None)
        return "ok"

    async def begun(self) -> asyncio.Task[str]:
        task = asyncio.create_task(self.ping())
        await asyncio.sleep(0)  # it runs to where it waits
        return task


async def test_exactly_one_probe_and_only_its_end_counts(hands: Hands) -> None:
    held = Held(CircuitBreakerLayer(threshold=1, clock=hands))
    early, late, fatal = await held.begun(), await held.begun(), await held.begun()
    held.waiting[2].set_exception(AWAY)
    assert await fatal == AWAY_TEXT
    hands.now += 30
    probe = await held.begun()
    assert [await (await held.begun()) for _ in range(3)] == [OPEN] * 3
    held.waiting[0].set_result(None)
    held.waiting[1].set_exception(TransportError("test", "away before"))
    assert (await early, await late) == ("ok", "test: away before")
    assert await (await held.begun()) == OPEN, (
        "calls from before it opened neither close it nor free its probe"
    )
    held.waiting[3].set_result(None)
    assert await probe == "ok"
    again = await held.begun()
    held.waiting[4].set_result(None)
    assert await again == "ok"


async def test_a_probe_that_another_breaker_refuses_is_over(moody: Moody, hands: Hands) -> None:
    inner = CircuitBreakerLayer(threshold=1, cool_down=100, clock=hands)
    outer = CircuitBreakerLayer(threshold=1, cool_down=10, clock=hands)
    engine = moody.under(inner, outer)
    moody.errors = [AWAY]
    assert [await pinged(engine), await pinged(engine)] == [AWAY_TEXT, OPEN]
    hands.now += 50
    assert [await pinged(engine), await pinged(engine)] == [OPEN, OPEN]
    hands.now += 50
    assert await pinged(engine) == "ok"


async def test_refusals_of_another_breaker_do_not_count(moody: Moody, hands: Hands) -> None:
    inner = CircuitBreakerLayer(threshold=1, cool_down=10, clock=hands)
    outer = CircuitBreakerLayer(threshold=2, cool_down=1_000, clock=hands)
    engine = moody.under(inner, outer)
    moody.errors = [AWAY]
    assert [await pinged(engine) for _ in range(4)] == [AWAY_TEXT, OPEN, OPEN, OPEN]
    hands.now += 10
    assert await pinged(engine) == "ok"


# ---- settings

REFUSED: list[tuple[Any, str]] = [
    (
        lambda: TracingLayer("loud"),
        "TracingLayer: level: expected one of trace, debug, info, warn, got 'loud'",
    ),
    (lambda: MetricsLayer(object()), "MetricsLayer: sink: expected an object with record_call"),  # type: ignore[arg-type]
    (lambda: RateLimitLayer(), "either per_second, or classifier and buckets, got neither"),
    (
        lambda: RateLimitLayer(classifier=by_kind),
        "either per_second, or classifier and buckets, got neither",
    ),
    (lambda: RateLimitLayer(3, default=3), "got both"),
    (
        lambda: RateLimitLayer(float("nan")),
        "per_second: expected a number of calls per second, got nan",
    ),
    (
        lambda: RateLimitLayer(classifier=by_kind, buckets={"a": True}),
        r"buckets\['a'\]: expected a number",
    ),
    (
        lambda: RateLimitLayer(classifier=by_kind, buckets={}, default="x"),
        "default: expected a number",
    ),  # type: ignore[arg-type]
    (lambda: CircuitBreakerLayer(0), "threshold: expected an integer from 1, got 0"),
    (lambda: CircuitBreakerLayer(cool_down=-1), "cool_down: expected seconds from 0, got -1"),
    (lambda: with_layers(None, TracingLayer), "layers: expected objects of a subclass of Layer"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "said"), REFUSED)
def test_settings_are_checked(make: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make()
