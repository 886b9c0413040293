"""Log lines: form, filter and redaction."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from flowfabric import App, Engine, ExecutionPolicy, Worker, memory_engine
from flowfabric.codec.handle import decode_fields
from flowfabric.engine.claims.routing import CHECK_EVERY_MS
from flowfabric.errors import ConfigError
from flowfabric.loops.supervisor import Supervisor
from flowfabric.model.lease import LeaseFence
from flowfabric.model.policy import RoutingRequirements
from flowfabric.observe import log_to_stderr
from flowfabric.observe.logs import JsonLines, parse_levels, redact
from flowfabric.testing import ManualClock
from tests.engine.helpers import LANE, create, registration, running, worker
from tests.engine.suspend_helpers import park, seed

LOGGERS = ("", "audit", "flowfabric", "flowfabric.worker", "flowfabric.loops", "asyncio")


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    """The levels and handlers of before are put back."""
    before = {name: logging.getLogger(name).level for name in LOGGERS}
    root = logging.getLogger()
    handlers = list(root.handlers)
    yield io.StringIO()
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)
    root.handlers[:] = handlers


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_record_is_one_line_with_its_fields(out: io.StringIO) -> None:
    log_to_stderr("info", out)
    logging.getLogger("flowfabric.loops").info(
        "two\nlines %d", 7, extra={"scanner": "lease_expiry", "processed": 3}
    )
    (said,) = lines(out)
    assert said.pop("ts").endswith("Z")
    assert said == {
        "level": "info",
        "logger": "flowfabric.loops",
        "message": "two\nlines 7",
        "scanner": "lease_expiry",
        "processed": 3,
    }


def test_an_error_has_its_traceback(out: io.StringIO) -> None:
    log_to_stderr("info", out)
    try:
        raise ValueError("token=abc is wrong")
    except ValueError:
        logging.getLogger("flowfabric").exception("it failed")
    assert "ValueError: token=[redacted] is wrong" in lines(out)[0]["error"]


def test_the_filter_is_by_logger(out: io.StringIO) -> None:
    log_to_stderr("warn, flowfabric.worker=debug", out)
    logging.getLogger("flowfabric.loops").info("not wanted")
    logging.getLogger("flowfabric.loops").warning("wanted")
    logging.getLogger("flowfabric.worker").debug("wanted too")
    assert [said["message"] for said in lines(out)] == ["wanted", "wanted too"]


@pytest.mark.parametrize(
    ("spec", "heard"), [("error", True), ("off", True), ("info,audit=off", False)]
)
def test_the_audit_log_is_enabled_by_default(out: io.StringIO, spec: str, heard: bool) -> None:
    log_to_stderr(spec, out)
    logging.getLogger("audit").info(
        "waitpoint_hmac_rotation_complete", extra={"new_kid": "k2", "rotated": 1}
    )
    assert bool(lines(out)) is heard


def test_the_variable_is_read(out: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FF_LOG", "error")
    log_to_stderr(stream=out)
    logging.getLogger("flowfabric").warning("not wanted")
    assert lines(out) == []
    assert parse_levels("") == {"": logging.INFO, "audit": logging.INFO}


@pytest.mark.parametrize("spec", ["loud", "flowfabric=", "info,flowfabric.worker=5"])
def test_a_filter_that_means_nothing_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"FF_LOG: .* levels are trace, debug, info"):
        parse_levels(spec)


def test_repeated_setup_writes_each_line_once(out: io.StringIO) -> None:
    log_to_stderr("info", io.StringIO())
    log_to_stderr("info", out)
    logging.getLogger("flowfabric").info("once")
    assert len(lines(out)) == 1


# ---- secrets


async def test_credentials_given_to_the_log_do_not_come_out(
    memory: Engine, out: io.StringIO
) -> None:
    await seed(memory)
    _, handle = await running(memory)
    fields = decode_fields(handle.opaque)
    parked = await park(memory)
    token = parked.waitpoint.waitpoint_token
    fence = LeaseFence(fields.lease_id, 1, uuid4())
    secrets = [str(fields.lease_id), handle.opaque.hex(), repr(handle.opaque), token, "hunter2"]
    log_to_stderr("debug", out)
    log = logging.getLogger("flowfabric.worker")
    log.info("%s %s %s", handle, fields, fence)
    log.info("the token is %s for you", token)
    log.info(
        "x",
        extra={
            "lease_id": fields.lease_id,
            "handle": handle,
            "raw": handle.opaque,
            "fields": fields,
        },
    )
    log.info("y", extra={"of": {"token": token}, "all": [token, fence]})
    log.info("postgresql://ann:hunter2@host/db with Authorization: Bearer hunter2")
    text = out.getvalue()
    assert len(lines(out)) == 5
    assert not [secret for secret in secrets if secret in text]


async def test_a_workers_log_contains_no_secret(memory: Engine, out: io.StringIO) -> None:
    """At the lowest level, with a task that fails and one whose lease is taken away."""
    log_to_stderr("debug", out)
    app = App("memory://", engine=memory)
    seen: list[Any] = []
    real = memory.claim_many

    async def claim_many(*args: Any, **named: Any) -> Any:
        works = await real(*args, **named)
        seen.extend(works)
        return works

    memory.claim_many = claim_many  # type: ignore[method-assign]

    @app.task
    async def failing() -> None:
        raise ValueError("no")

    await failing.submit()
    await Worker(app).run_until_idle()
    await Supervisor(memory).run_once()
    assert seen
    text = out.getvalue()
    assert "a task failed" in text and "scan cycle complete" in text
    failed = next(said for said in lines(out) if "a task failed" in said["message"])
    assert (failed["task"], failed["attempt"], failed["category"]) == (
        "failing",
        0,
        "handler_error",
    )
    for work in seen:
        assert str(decode_fields(work.handle.opaque).lease_id) not in text
        assert work.handle.opaque.hex() not in text


@pytest.mark.parametrize(
    "harmless",
    [
        "12:34:56",
        "execution_id={fp:3}:0190aaaa-0000-7000-8000-000000000000",
        "https://host/path",
        "tokens 5/4",
    ],
)
def test_other_text_is_not_redacted(harmless: str) -> None:
    assert redact(harmless) == harmless


def test_values_without_json_form_are_logged_as_text() -> None:
    record = logging.makeLogRecord(
        {"msg": "x", "name": "n", "what": {1, 2}, "kind": ValueError("v")}
    )
    assert json.loads(JsonLines().format(record))["kind"] == "v"


async def test_executions_without_a_capable_worker_are_logged(out: io.StringIO) -> None:
    log_to_stderr("info", out)
    clock = ManualClock()
    engine = memory_engine(clock)
    await engine.register_worker(registration())
    needs = ExecutionPolicy(
        routing_requirements=RoutingRequirements(required_capabilities=("gpu",))
    )
    ident = await create(engine, policy=needs)
    for _ in range(2):
        assert await engine.claim(LANE, (), worker()) is None
        clock.advance(CHECK_EVERY_MS)
    (said,) = (each for each in lines(out) if each["logger"] == "flowfabric.routes")
    assert (said["lane"], said["execution_ids"], said["missing"]) == (LANE, [str(ident)], ["gpu"])


async def test_loops_say_that_they_have_begun(memory: Engine, out: io.StringIO) -> None:
    log_to_stderr("info", out)
    supervisor = Supervisor(memory)
    supervisor.start()
    await supervisor.stop(5)
    begun = {said["scanner"]: said["interval_ms"] for said in lines(out) if "scanner" in said}
    assert begun == {loop.name: loop.interval_ms for loop in supervisor.loops}
