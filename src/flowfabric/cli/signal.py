"""`flowfabric signal`: delivers a signal to a waitpoint, with its token or as an operator."""

from __future__ import annotations

import getpass
import json
import os
import sys
import uuid
from typing import Annotated

import typer
from rich.text import Text

from flowfabric.cli.database import read, write
from flowfabric.cli.text import EXECUTION_ID, WriteUrl, parse_id, show
from flowfabric.codec.token import MAX_TOKEN_BYTES
from flowfabric.engine.engine import Engine
from flowfabric.errors import ConfigError, NotFound, ValidationError, ValidationKind
from flowfabric.ids import ExecutionId, parse_uuid
from flowfabric.model.waitpoint import (
    ApprovalSignalArgs,
    DeliverSignalArgs,
    SignalAccepted,
    SignalDuplicate,
)

TOKEN_VARIABLE = "FF_WAITPOINT_TOKEN"  # noqa: S105 - the name of a variable
EXPECTED_EXECUTION = (
    f"EXECUTION: expected an execution id such as {EXECUTION_ID}, "
    "as `flowfabric approvals URL` shows it"
)
EXPECTED_WAITPOINT = (
    "WAITPOINT: expected the UUID of a waitpoint, as `flowfabric approvals URL` shows it"
)
TOO_MANY = (
    "too many arguments: expected EXECUTION WAITPOINT URL; "
    "pass a token in --token or on standard input"
)
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


def run(
    ctx: typer.Context,
    execution: Annotated[
        str, typer.Argument(help="The execution that waits; `flowfabric approvals URL` shows it.")
    ],
    waitpoint: Annotated[str, typer.Argument(help="The waitpoint's UUID.")],
    url: WriteUrl,
    name: Annotated[str, typer.Option(help="The signal's name.")] = "approved",
    payload: Annotated[
        str | None, typer.Option(metavar="JSON", help="The payload of the signal.")
    ] = None,
    source: Annotated[str | None, typer.Option(metavar="WHO", help="Who signals.")] = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="The waitpoint's token; else FF_WAITPOINT_TOKEN, else a line on standard input."
        ),
    ] = None,
    operator: Annotated[
        bool, typer.Option("--operator", help="Decide as an operator, without a token.")
    ] = False,
) -> int:
    """Delivers a signal to a waitpoint."""
    # Errors never repeat an argument, because a token may be in the wrong position.
    if ctx.args:
        raise ConfigError(TOO_MANY)
    ident = parse_id(ExecutionId, execution, EXPECTED_EXECUTION, repeat=False)
    waitpoint_id = parse_id(parse_uuid, waitpoint, EXPECTED_WAITPOINT, repeat=False)
    if not name:
        raise ConfigError("--name: expected the name of the signal, such as approved or rejected")
    if operator:
        _check_operator(token, payload, source)
    sent = None if payload is None else _payload(payload)
    proof = "" if operator else _token(token)
    found = read(url, lambda engine: engine.describe_execution(ident))
    if found is None:
        raise NotFound("execution", ident)
    args: ApprovalSignalArgs | DeliverSignalArgs
    if operator:
        args = ApprovalSignalArgs(
            execution_id=ident, lane_id=found.lane_id, waitpoint_id=waitpoint_id, signal_name=name
        )
    else:
        args = DeliverSignalArgs(
            execution_id=ident,
            waitpoint_id=waitpoint_id,
            signal_id=uuid.uuid4(),
            waitpoint_token=proof,
            signal_name=name,
            source_type=SOURCE_TYPE if source else "",
            source_identity=source or "",
            payload=sent,
        )
    show(_outcome(write(url, lambda engine: _deliver(engine, args))))
    return 0


def _outcome(result: SignalAccepted | SignalDuplicate) -> Text:
    if isinstance(result, SignalDuplicate):
        return Text(f"already delivered as signal {result.existing_signal_id}; nothing changed")
    return Text(f"signal {result.signal_id}: {EFFECTS.get(result.effect, result.effect)}")


async def _deliver(
    engine: Engine, args: ApprovalSignalArgs | DeliverSignalArgs
) -> SignalAccepted | SignalDuplicate:
    try:
        if isinstance(args, ApprovalSignalArgs):
            return await engine.deliver_approval_signal(args)
        return await engine.deliver_signal(args)
    except ValidationError as error:
        if error.kind is not ValidationKind.INVALID_TOKEN:
            raise
        by_operator = isinstance(args, ApprovalSignalArgs)
        why = OPERATOR_REFUSED if by_operator else REFUSALS.get(error.detail, "")
        raise ConfigError(f"the token was refused ({error.detail}): {why}") from None


def _check_operator(token: str | None, payload: str | None, source: str | None) -> None:
    if token is not None:
        raise ConfigError(
            "--operator and --token: only one of them is accepted; an operator needs no token"
        )
    for option, value in (("--payload", payload), ("--source", source)):
        if value is not None:
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
