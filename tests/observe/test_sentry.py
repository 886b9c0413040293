"""Reports to Sentry: errors and crashes, without secrets."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowfabric.errors import ConfigError
from flowfabric.observe import sentry
from tests.cli.processes import Command, running
from tests.remote.servers import free_port

from .receivers import Receiver, receiving

pytestmark = pytest.mark.xdist_group("processes")

PLANTED = ("planted", "feed" * 16)
SECRETS = """
import logging
from flowfabric.model.lease import Handle, HandleKind

HANDLE = Handle("Sqlite", HandleKind.FRESH, b"planted-handle")
TOKEN = "k1:" + "feed" * 16
log = logging.getLogger("of.the.user")


def spill(words):
    kept = "planted-local"
    try:
        secrets = f"token=planted-one with {HANDLE} and {TOKEN}"
        raise ValueError(f"{secrets}, Authorization: Bearer planted-bearer")
    except ValueError:
        said = {"lease_id": "planted-lease", "of": {"password": "planted-password"}}
        said |= {"raw": b"planted-bytes", "lane": "mail"}
        log.exception("%s: postgresql://ann:planted-url@host/db %s", words, HANDLE, extra=said)
"""
APP = """
import asyncio
from flowfabric import App
import secrets_of_the_user

app = App("sqlite:///ff.db")


@app.task
async def spill() -> None:
    secrets_of_the_user.log.warning("not an error")
    secrets_of_the_user.spill("it went wrong")
"""
SUBMIT = """
import asyncio
from app import app, spill


async def main():
    async with app:
        await (await spill.submit()).result()


asyncio.run(main())
"""
CRASHING = """
from flowfabric import App
import secrets_of_the_user

app = App("sqlite:///ff.db")


@app.task
async def never() -> None: ...


def broken(engine):
    kept = "planted-local"
    raise RuntimeError(f"no engine with password=planted-password and {secrets_of_the_user.HANDLE}")


app.around = broken
"""
SERVER = """
import sys
import secrets_of_the_user
from flowfabric.engine.engine import Engine
from flowfabric.server import lifecycle


async def broken(self):
    secrets_of_the_user.spill("the store went wrong")
    raise RuntimeError("no answer for token=planted-token")


def crashing(*_):
    raise RuntimeError("cannot serve with password=planted-password")


if sys.argv.pop() == "crash":
    lifecycle.serve = crashing
else:
    Engine.ping = broken

from flowfabric.cli.main import main

main()
"""


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as found:
        monkeypatch.setenv("FF_SENTRY_DSN", f"http://public@{found.address}/1")
        monkeypatch.delenv("FF_SENTRY_ENVIRONMENT", raising=False)
        monkeypatch.delenv("FF_SENTRY_RELEASE", raising=False)
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secrets_of_the_user.py").write_text(SECRETS, encoding="utf-8")
    return tmp_path


def nothing_spilt(receiver: Receiver) -> None:
    text = b"\n".join(post.body for post in receiver.posts).decode()
    assert text and not [secret for secret in PLANTED if secret in text], text


def crash_of(event: dict[str, Any]) -> tuple[str, str, str]:
    said = event["exception"]["values"][-1]
    return event["level"], said["type"], said["value"]


# ---- real processes


def test_errors_that_a_worker_logs_arrive_and_nothing_secret_with_them(
    folder: Path, receiver: Receiver
) -> None:
    (folder / "app.py").write_text(APP, encoding="utf-8")
    with running(folder, "worker", "app.py") as worker:
        worker.until("app.py: ")
        subprocess.run([sys.executable, "-c", SUBMIT], cwd=folder, timeout=60, check=True)
        worker.process.send_signal(signal.SIGTERM)
        assert worker.ended() == 0
    (event,) = receiver.events
    assert event["logger"] == "of.the.user" and event["level"] == "error"
    assert event["logentry"]["message"] == "%s: postgresql://ann:[redacted]@host/db %s"
    assert (
        event["logentry"]["formatted"].startswith("it went wrong: ")
        and event["extra"]["lane"] == "mail"
    )
    assert event["environment"] == "production" and event["release"] == "0.1.0"
    assert crash_of(event)[1] == "ValueError" and "token=[redacted]" in crash_of(event)[2]
    nothing_spilt(receiver)


@pytest.mark.parametrize("command", ["worker", "dev"])
def test_a_crash_is_reported_before_the_process_ends(
    command: str, folder: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FF_SENTRY_ENVIRONMENT", "tests")
    monkeypatch.setenv("FF_SENTRY_RELEASE", "7.7")
    (folder / "app.py").write_text(CRASHING, encoding="utf-8")
    with running(folder, command, "app.py") as process:
        if command == "dev":
            process.until("waiting for the code to change")
            process.process.send_signal(signal.SIGTERM)
        assert (process.ended() == 0) is (command == "dev")
    (event,) = receiver.events
    assert (
        crash_of(event) == ("fatal", "RuntimeError", crash_of(event)[2])
        and "password=[redacted]" in crash_of(event)[2]
    )
    assert (event["environment"], event["release"]) == ("tests", "7.7")
    nothing_spilt(receiver)


class Launched(Command):
    """`flowfabric server`, in which something will go wrong."""

    def __init__(self, folder: Path, what: str) -> None:
        (folder / "launch.py").write_text(SERVER, encoding="utf-8")
        super().__init__(["server", what], folder, program=[sys.executable, "launch.py"])


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> str:
    found = f"127.0.0.1:{free_port()}"
    for name, value in {
        "DEV_MODE": "1",
        "WAITPOINT_HMAC_SECRET": "5e" * 32,
        "LISTEN_ADDR": found,
    }.items():
        monkeypatch.setenv(f"FF_{name}", value)
    return found


def test_a_server_reports_errors_before_it_exits(
    folder: Path, receiver: Receiver, address: str
) -> None:
    server = Launched(folder, "fail")
    try:
        server.until("FlowFabric on ")
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://{address}/healthz", timeout=30)
        server.process.send_signal(signal.SIGTERM)
        assert server.ended() == 0
    finally:
        server.close()
    first, second = receiver.events
    assert first["logentry"]["formatted"].startswith("the store went wrong")
    assert (second["logger"], second["logentry"]["formatted"]) == (
        "flowfabric.server",
        "request failed",
    )
    assert crash_of(second) == ("error", "RuntimeError", "no answer for token=[redacted]")
    nothing_spilt(receiver)


def test_a_server_reports_its_crash(folder: Path, receiver: Receiver, address: str) -> None:
    server = Launched(folder, "crash")
    try:
        assert server.ended() == 1
    finally:
        server.close()
    assert [crash_of(event) for event in receiver.events] == [
        ("fatal", "RuntimeError", "cannot serve with password=[redacted]")
    ]
    nothing_spilt(receiver)


def test_config_errors_are_not_reported(folder: Path, receiver: Receiver) -> None:
    with running(folder, "worker", "missing.py") as worker:
        assert worker.ended() == 2
    assert receiver.posts == []


# ---- settings


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "https://host/1",
        "https://planted@host/",
        "ftp://planted@host/1",
        "https://planted@/1",
        "http://planted@h:x/1",
    ],
)
def test_a_wrong_address_is_named_and_not_shown(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FF_SENTRY_DSN", text)
    with pytest.raises(
        ConfigError, match=r"^invalid value for FF_SENTRY_DSN: expected https://KEY@HOST/PROJECT"
    ) as caught:
        sentry.sentry_from_environment()
    assert "planted" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["https://key@o1.ingest.sentry.io/42", "http://key:old@127.0.0.1:8000/path/1", ""]
)
def test_a_right_address(text: str) -> None:
    assert sentry.parse_dsn(text) == text


def test_without_an_address_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import sys\nfrom flowfabric.observe.sentry import *\nwith "
        "sentry_from_environment(): print('sentry_sdk' in sys.modules)"
    )
    for environ in ({}, {"FF_SENTRY_DSN": ""}):
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, **environ},
        )
        assert done.stdout == "False\n", done.stderr


def test_the_library_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentry_sdk", None)
    monkeypatch.setenv("FF_SENTRY_DSN", "http://key@127.0.0.1:1/1")
    with (
        pytest.raises(ConfigError, match=r"pip install 'flowfabric\[sentry\]'"),
        sentry.sentry_from_environment(),
    ):
        pass


# ---- what is sent


def test_an_event_is_redacted_all_over() -> None:
    record = logging.makeLogRecord(
        {"msg": "token=%s", "args": ("abc",), "secret_word": "abc", "lane": "mail"}
    )
    event = {
        "logentry": {"message": "token=%s", "params": ["abc"]},
        "extra": {"secret_word": "abc"},
        "exception": {
            "values": [
                {"type": "E", "value": "lease_id=abc", "stacktrace": {"frames": [{"lineno": 3}]}}
            ]
        },
        "tags": {"of": "Bearer abc"},
        "user": {"id": "abc"},
        "request": {"data": "abc"},
        "breadcrumbs": {"values": [{"message": "abc"}]},
        "timestamp": "2026-11-16T00:00:00Z",
    }
    found = sentry.redact_event(event, {"log_record": record})
    assert "abc" not in str(found)
    assert found["logentry"]["formatted"] == "token=[redacted]" and found["extra"] == {
        "secret_word": "[redacted]",
        "lane": "mail",
    }
    assert found["exception"]["values"][0]["stacktrace"] == {"frames": [{"lineno": 3}]}
    assert (
        found["timestamp"] == event["timestamp"]
        and not {"user", "request", "breadcrumbs"} & found.keys()
    )
