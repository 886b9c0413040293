"""`flowfabric signal`: one signal to one waitpoint, by its token or as an operator."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import sys
import uuid
from uuid import UUID

from msgspec import Struct
from rich.console import Console
from rich.text import Text

from flowfabric.cli.database import looking, writing
from flowfabric.codec.token import MAX_TOKEN_BYTES
from flowfabric.engine.engine import Engine
from flowfabric.errors import ConfigError, NotFound, ValidationError, ValidationKind
from flowfabric.ids import ExecutionId, ExecutionIdError, parse_uuid
from flowfabric.model.execution import ExecutionSnapshot
from flowfabric.model.waitpoint import (
    ApprovalSignalArgs,
    DeliverSignalArgs,
    SignalAccepted,
    SignalDuplicate,
)

TOKEN_VARIABLE = "FF_WAITPOINT_TOKEN"  # noqa: S105 - the name of a variable
SOURCE_TYPE = "user"
EFFECTS = {
    "resume_condition_satisfied": "that was all it waited for: the execution goes on",
    "appended_to_waitpoint": "recorded; the execution waits on",
    "appended_to_waitpoint_duplicate": "recorded; it adds nothing to what has arrived before, and the execution waits on",
    "signal_ignored_matcher_failed": "recorded; a signal of this name is not waited for here, and the execution waits on",
    "signal_ignored_not_in_condition": "recorded; nothing is waited for on this waitpoint, and the execution waits on",
    "buffered_for_pending_waitpoint": "kept until the execution suspends on this waitpoint",
}
REFUSALS = {
    "missing_token": "there is none",
    "invalid_token": "it does not open this waitpoint",
    "token_expired": "the key it was made with has been rotated out; ask for a new one",
    "hmac_secret_not_initialized": "the database has no signing key",
}
OPERATOR_REFUSED = (
    "the waitpoint's own token is no longer good; in Python, resume_execution goes past it"
)


class Given(Struct, frozen=True):
    """What stands on the command line."""

    execution: str
    waitpoint: str
    name: str
    payload: str | None
    source: str | None
    token: str | None
    operator: bool
    extra: bool

    def __repr__(self) -> str:
        return f"Given({self.name!r})"


def run(given: Given, url: str, console: Console) -> int:
    """What was given is never repeated in an error: a token may stand in the wrong place."""
    if given.extra:
        raise ConfigError(
            "too many arguments: expected EXECUTION WAITPOINT URL; a token goes to --token or to standard input"
        )
    execution, waitpoint = _execution(given.execution), _waitpoint(given.waitpoint)
    _check_options(given)
    payload = None if given.payload is None else _payload(given.payload)
    token = "" if given.operator else _token(given.token)
    stored = asyncio.run(looking(url, lambda engine: engine.describe_execution(execution)))
    if stored is None:
        raise NotFound("execution", execution)
    told = asyncio.run(
        writing(url, lambda engine: _deliver(engine, given, stored, waitpoint, payload, token))
    )
    if isinstance(told, SignalDuplicate):
        said = f"delivered before, as signal {told.existing_signal_id}; nothing changed"
    else:
        said = f"signal {told.signal_id}: {EFFECTS.get(told.effect, told.effect)}"
    console.print(Text(said), highlight=False, soft_wrap=True)
    return 0


async def _deliver(
    engine: Engine,
    given: Given,
    stored: ExecutionSnapshot,
    waitpoint: UUID,
    payload: bytes | None,
    token: str,
) -> SignalAccepted | SignalDuplicate:
    execution = stored.execution_id
    try:
        if given.operator:
            decision = ApprovalSignalArgs(
                execution_id=execution,
                lane_id=stored.lane_id,
                waitpoint_id=waitpoint,
                signal_name=given.name,
            )
            return await engine.deliver_approval_signal(decision)
        return await engine.deliver_signal(
            DeliverSignalArgs(
                execution_id=execution,
                waitpoint_id=waitpoint,
                signal_id=uuid.uuid4(),
                waitpoint_token=token,
                signal_name=given.name,
                source_type=SOURCE_TYPE if given.source else "",
                source_identity=given.source or "",
                payload=payload,
            )
        )
    except ValidationError as error:
        if error.kind is not ValidationKind.INVALID_TOKEN:
            raise
        why = OPERATOR_REFUSED if given.operator else REFUSALS.get(error.detail, "")
        raise ConfigError(f"the token was refused ({error.detail}): {why}") from None


def _execution(text: str) -> ExecutionId:
    try:
        return ExecutionId(text)
    except ExecutionIdError:
        shape = "{fp:N}:<uuid>, as `flowfabric approvals URL` shows it"
        raise ConfigError(f"EXECUTION: an execution id of the form {shape}") from None


def _waitpoint(text: str) -> UUID:
    try:
        return parse_uuid(text)
    except ValueError:
        raise ConfigError(
            "WAITPOINT: a waitpoint's UUID, as `flowfabric approvals URL` shows it"
        ) from None


def _check_options(given: Given) -> None:
    if not given.name:
        raise ConfigError("--name: the name of the signal, such as approved or rejected")
    if given.operator and given.token is not None:
        raise ConfigError("--operator and --token: one of them; an operator needs no token")
    for option, value in (("--payload", given.payload), ("--source", given.source)):
        if given.operator and value is not None:
            raise ConfigError(f"--operator and {option}: an operator's decision has a name only")


def _payload(text: str) -> bytes:
    try:
        json.loads(text)
        return text.encode()
    except (ValueError, RecursionError):
        raise ConfigError("--payload: JSON, such as '{\"ticket\": 7}'") from None


def _token(given: str | None) -> str:
    """From the option, the environment or standard input, in that order; typed in, it is not shown."""
    found = given if given is not None else os.environ.get(TOKEN_VARIABLE)
    if found is None:
        found = (
            getpass.getpass("token: ")
            if sys.stdin is not None and sys.stdin.isatty()
            else _from_stdin()
        )
    found = found.strip()
    if not found:
        raise ConfigError(
            f"no token: give it by --token, in {TOKEN_VARIABLE} or on standard input, or say --operator"
        )
    try:
        found.encode()
    except UnicodeEncodeError:
        raise ConfigError("the token was refused (invalid_token): it is not text") from None
    return found


def _from_stdin() -> str:
    if sys.stdin is None:
        return ""
    try:
        return sys.stdin.buffer.readline(2 * MAX_TOKEN_BYTES).decode()
    except (UnicodeDecodeError, OSError):
        raise ConfigError(
            "the token was refused (invalid_token): standard input is not text"
        ) from None
