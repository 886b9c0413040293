"""`flowfabric signal`: delivers a signal to a waitpoint, with its token or as an operator."""

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

from flowfabric.cli.database import with_reader, with_writer
from flowfabric.cli.text import EXECUTION_ID
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
    "resume_condition_satisfied": "the condition is satisfied; the execution resumes",
    "appended_to_waitpoint": "recorded; the execution still waits",
    "appended_to_waitpoint_duplicate": (
        "recorded; it repeats an earlier signal, and the execution still waits"
    ),
    "signal_ignored_matcher_failed": (
        "recorded; the waitpoint does not accept this name, and the execution still waits"
    ),
    "signal_ignored_not_in_condition": (
        "recorded; the condition does not use this waitpoint, and the execution still waits"
    ),
    "buffered_for_pending_waitpoint": "stored until the execution suspends on this waitpoint",
}
REFUSALS = {
    "missing_token": "no token was given",
    "invalid_token": "it does not belong to this waitpoint",
    "token_expired": "its signing key has been rotated out; ask for a new token",
    "hmac_secret_not_initialized": "the database has no signing key",
}
OPERATOR_REFUSED = "the token of the waitpoint has expired; resume_execution in Python bypasses it"


class SignalOptions(Struct, frozen=True):
    """The command line."""

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


def run(given: SignalOptions, url: str, console: Console) -> int:
    """Errors never repeat an argument, because a token may be in the wrong position."""
    if given.extra:
        raise ConfigError(
            "too many arguments: expected EXECUTION WAITPOINT URL; "
            "pass a token in --token or on standard input"
        )
    execution, waitpoint = _execution(given.execution), _waitpoint(given.waitpoint)
    _check_options(given)
    payload = None if given.payload is None else _payload(given.payload)
    token = "" if given.operator else _token(given.token)
    stored = asyncio.run(with_reader(url, lambda engine: engine.describe_execution(execution)))
    if stored is None:
        raise NotFound("execution", execution)
    result = asyncio.run(
        with_writer(url, lambda engine: _deliver(engine, given, stored, waitpoint, payload, token))
    )
    if isinstance(result, SignalDuplicate):
        line = f"already delivered as signal {result.existing_signal_id}; nothing changed"
    else:
        line = f"signal {result.signal_id}: {EFFECTS.get(result.effect, result.effect)}"
    console.print(Text(line), highlight=False, soft_wrap=True)
    return 0


async def _deliver(
    engine: Engine,
    given: SignalOptions,
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
        raise ConfigError(
            f"EXECUTION: expected an execution id such as {EXECUTION_ID}, "
            "as `flowfabric approvals URL` shows it"
        ) from None


def _waitpoint(text: str) -> UUID:
    try:
        return parse_uuid(text)
    except ValueError:
        raise ConfigError(
            "WAITPOINT: expected the UUID of a waitpoint, as `flowfabric approvals URL` shows it"
        ) from None


def _check_options(given: SignalOptions) -> None:
    if not given.name:
        raise ConfigError("--name: expected the name of the signal, such as approved or rejected")
    if given.operator and given.token is not None:
        raise ConfigError(
            "--operator and --token: only one of them is accepted; an operator needs no token"
        )
    for option, value in (("--payload", given.payload), ("--source", given.source)):
        if given.operator and value is not None:
            raise ConfigError(f"--operator and {option}: an operator's signal has only a name")


def _payload(text: str) -> bytes:
    try:
        json.loads(text)
        return text.encode()
    except (ValueError, RecursionError):
        raise ConfigError("--payload: expected JSON, such as '{\"ticket\": 7}'") from None


def _token(given: str | None) -> str:
    """The token from the option, the environment or standard input; a typed token is not shown."""
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
            f"no token: pass it in --token, in {TOKEN_VARIABLE} or on standard input, "
            "or use --operator"
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
