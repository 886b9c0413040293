"""Nothing bad comes in: each refusal names its field and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec import structs

from flowfabric.codec.handle import encode_handle
from flowfabric.connect import memory_engine, sqlite_engine
from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError, ValidationError, ValidationKind
from flowfabric.model.attempt import TerminalFailed
from flowfabric.model.execution import MAX_PAYLOAD_BYTES, MAX_TAGS
from flowfabric.model.lease import (
    MAX_LEASE_TTL_MS,
    BackendTag,
    ClaimPolicy,
    FailExecutionArgs,
    Handle,
    HandleKind,
)
from flowfabric.model.policy import MAX_DURATION_MS
from flowfabric.model.worker import RegisterWorkerArgs
from flowfabric.store.sqlite.registry import open_store
from flowfabric.testing import ManualClock

from .bad_common import Subject
from .bad_values import GROUPS
from .helpers import HOLDER_CALLS, claim, create, dump, fields, forged, invalid, running


@pytest.fixture(params=["memory", "sqlite-file"], scope="module")
def subject(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Subject]:
    """Shared by all cases: a refused call leaves it as it was, and each case checks that."""
    clock = ManualClock()
    engine: Engine = memory_engine(clock)
    if request.param == "sqlite-file":
        engine = sqlite_engine(
            open_store(str(tmp_path_factory.mktemp("bad") / "ff.db"), clock=clock)
        )

    async def prepare() -> Subject:
        ident, handle = await running(engine)
        ready = await create(engine)
        await engine.register_worker(RegisterWorkerArgs(worker_id="w", worker_instance_id="live"))
        return Subject(engine, ready, ident, handle)

    yield asyncio.run(prepare())
    asyncio.run(engine.close())


@pytest.mark.parametrize(
    ("method", "field"), GROUPS, ids=[f"{method}-{field}" for method, field in GROUPS]
)
async def test_every_bad_value_is_refused_by_name_and_changes_nothing(
    subject: Subject, method: str, field: str
) -> None:
    before = await dump(subject.engine)
    wrong: list[str] = []
    for value, call in GROUPS[method, field]:
        try:
            await call(subject)
            wrong.append(f"{value} was accepted")
        except ValidationError as error:
            if field not in str(error) or len(str(error)) > 600:
                wrong.append(f"{value}: {error!s:.200}")
        except Exception as error:
            wrong.append(f"{value} raised {error!r:.200}")
    assert wrong == []
    assert await dump(subject.engine) == before


# ---- handles


def altered(handle: Handle, at: int) -> Handle:
    data = bytearray(handle.opaque)
    data[at] ^= 1
    return Handle(handle.backend, handle.kind, bytes(data))


def of_backend(handle: Handle, tag: BackendTag) -> bytes:
    return encode_handle(structs.replace(fields(handle), tag=tag))


FOREIGN: dict[str, tuple[Callable[[Handle], Any], ValidationKind]] = {
    "postgres": (
        lambda h: Handle("Postgres", h.kind, of_backend(h, BackendTag.POSTGRES)),
        ValidationKind.HANDLE_FROM_OTHER_BACKEND,
    ),
    "valkey by name": (
        lambda h: Handle("Valkey", h.kind, h.opaque),
        ValidationKind.HANDLE_FROM_OTHER_BACKEND,
    ),
    "postgres inside": (
        lambda h: Handle(h.backend, h.kind, of_backend(h, BackendTag.POSTGRES)),
        ValidationKind.HANDLE_FROM_OTHER_BACKEND,
    ),
    "version 1": (
        lambda h: Handle(h.backend, h.kind, b"\x01" + h.opaque[3:]),
        ValidationKind.HANDLE_FROM_OTHER_BACKEND,
    ),
    "empty": (lambda h: Handle(h.backend, h.kind, b""), ValidationKind.CORRUPTION),
    "trailing": (
        lambda h: Handle(h.backend, h.kind, h.opaque + b"\x00"),
        ValidationKind.CORRUPTION,
    ),
    "huge": (
        lambda h: Handle(h.backend, h.kind, h.opaque + bytes(5_000)),
        ValidationKind.CORRUPTION,
    ),
    "unknown magic": (
        lambda h: Handle(h.backend, h.kind, b"\x07" + h.opaque[1:]),
        ValidationKind.CORRUPTION,
    ),
    "unknown wire": (
        lambda h: Handle(h.backend, h.kind, b"\x02\x09" + h.opaque[2:]),
        ValidationKind.CORRUPTION,
    ),
    "unknown tag": (
        lambda h: Handle(h.backend, h.kind, b"\x02\x01\x09" + h.opaque[3:]),
        ValidationKind.CORRUPTION,
    ),
    "a length too far": (
        lambda h: Handle(h.backend, h.kind, h.opaque[:3] + b"\xff" * 4 + h.opaque[7:]),
        ValidationKind.CORRUPTION,
    ),
    "not utf-8": (
        lambda h: Handle(h.backend, h.kind, h.opaque[:7] + b"\xff" + h.opaque[8:]),
        ValidationKind.CORRUPTION,
    ),
    "text for bytes": (
        lambda h: Handle(h.backend, h.kind, h.opaque.decode("latin-1")),
        ValidationKind.CORRUPTION,
    ),
    "none": (lambda h: None, ValidationKind.CORRUPTION),
    "bare bytes": (lambda h: h.opaque, ValidationKind.CORRUPTION),
}


@pytest.mark.parametrize("call", HOLDER_CALLS.values(), ids=HOLDER_CALLS.keys())
@pytest.mark.parametrize(("make", "kind"), FOREIGN.values(), ids=FOREIGN.keys())
async def test_a_foreign_or_broken_handle_is_refused(
    subject: Subject, call: Any, make: Any, kind: ValidationKind
) -> None:
    before = await dump(subject.engine)
    error = await invalid(call(subject.engine, make(subject.handle)))
    assert error.kind is kind
    assert await dump(subject.engine) == before


async def test_a_handle_cut_anywhere_is_corrupt(subject: Subject) -> None:
    before = await dump(subject.engine)
    whole = subject.handle
    for length in range(len(whole.opaque)):
        error = await invalid(
            subject.engine.complete(Handle(whole.backend, HandleKind.FRESH, whole.opaque[:length]))
        )
        assert error.kind is ValidationKind.CORRUPTION and "handle_codec" in error.detail
    assert await dump(subject.engine) == before


async def test_a_handle_altered_in_any_byte_that_counts_is_refused(subject: Subject) -> None:
    """Header, execution, attempt index, lease id and epoch; the rest is informational."""
    before = await dump(subject.engine)
    for at in (*range(54), *range(94, 142)):
        with pytest.raises(EngineError):
            await subject.engine.complete(altered(subject.handle, at))
    assert await dump(subject.engine) == before


@pytest.mark.parametrize("call", HOLDER_CALLS.values(), ids=HOLDER_CALLS.keys())
@pytest.mark.parametrize("epoch", [2**63, 2**64 - 1])
async def test_an_epoch_beyond_any_store_is_refused_like_any_wrong_one(
    subject: Subject, call: Any, epoch: int
) -> None:
    before = await dump(subject.engine)
    with pytest.raises(EngineError):
        await call(subject.engine, forged(subject.handle, lease_epoch=epoch))
    assert await dump(subject.engine) == before


@pytest.mark.parametrize("ttl_ms", [0, MAX_LEASE_TTL_MS + 1, 2**64 - 1])
async def test_a_forged_time_to_live_beyond_the_limits_is_refused(
    subject: Subject, ttl_ms: int
) -> None:
    before = await dump(subject.engine)
    with pytest.raises(EngineError):
        await subject.engine.renew(forged(subject.handle, lease_ttl_ms=ttl_ms))
    assert await dump(subject.engine) == before


# ---- bounds that are still fine, and those that add up


async def test_the_largest_of_everything_is_accepted(engine: Engine) -> None:
    ident = await create(
        engine,
        lane_id="l" * 64,
        namespace="n" * 256,
        input_payload=b"x" * MAX_PAYLOAD_BYTES,
        idempotency_key="k" * 512,
        tags={f"a.t{n}": "v" for n in range(MAX_TAGS)},
        priority=2**31 - 1,
        delay_until=0,
        execution_deadline_at=2**53 - 1,
    )
    handle = await claim(
        engine,
        ClaimPolicy("w" * 256, "i" * 256, MAX_LEASE_TTL_MS, namespace="n" * 256),
        lane="l" * 64,
    )
    assert fields(handle).execution_id == ident
    await engine.complete(handle, bytearray(b"x"))  # type: ignore[arg-type]
    assert await engine.get_execution_result(ident) == b"x"


@pytest.mark.parametrize("wrong", [True, 1.0])
async def test_a_policy_that_equals_a_good_one_is_still_checked(engine: Engine, wrong: Any) -> None:
    """True == 1 == 1.0, and they hash alike: a cache of checked policies must not confuse them."""
    await create(engine)
    assert await engine.claim("none", (), ClaimPolicy("w", "i", 1)) is None
    await invalid(engine.claim("default", (), ClaimPolicy("w", "i", wrong)), "lease_ttl_ms")


async def test_tags_set_one_by_one_obey_the_limit_of_them_all(engine: Engine) -> None:
    ident = await create(engine, tags={f"a.t{n}": "v" for n in range(MAX_TAGS)})
    await engine.set_execution_tag(ident, "a.t0", "changed")
    before = await dump(engine)
    await invalid(engine.set_execution_tag(ident, "a.one_more", "v"), "tags")
    assert await dump(engine) == before


@pytest.mark.parametrize("delay", ["1e300", "-5", '"x"', "99999999999999999999"])
async def test_an_unusable_delay_in_a_given_retry_policy_never_breaks_the_engine(
    engine: Engine, delay: str
) -> None:
    ident, _ = await running(engine)
    text = f'{{"max_retries":1,"backoff":{{"type":"fixed","delay_ms":{delay}}}}}'
    args = FailExecutionArgs(
        execution_id=ident, failure_reason="r", failure_category="c", retry_policy_json=text
    )
    outcome: Any = None
    try:
        outcome = await engine.fail_execution(args)
    except ValidationError as error:
        outcome = error
    now = await engine.server_time_ms()
    refused = isinstance(outcome, ValidationError) and "retry_policy_json" in str(outcome)
    assert (
        refused
        or outcome == TerminalFailed()
        or now <= outcome.delay_until <= now + MAX_DURATION_MS
    )
