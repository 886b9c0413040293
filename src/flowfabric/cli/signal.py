"""`flowfabric signal`: delivers a signal to a waitpoint, with its token or as an operator."""

from __future__ import annotations

import getpass
import json
import os
import sys
import uuid
from typing import Annotated
from uuid import UUID

import typer
from msgspec import Struct
from rich.text import Text

from flowfabric.cli.database import URL_VARIABLE, Database
from flowfabric.cli.exits import CommandError, Exit
from flowfabric.cli.identify import execution_of, not_found
from flowfabric.cli.text import parse_id, show
from flowfabric.codec.token import MAX_TOKEN_BYTES
from flowfabric.engine.executions.resolve import ACCEPTED, looks_like_id
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError, FlowFabricError, ValidationError, ValidationKind
from flowfabric.ids import ExecutionId, parse_uuid
from flowfabric.model.waitpoint import (
    ApprovalSignalArgs,
    DeliverSignalArgs,
    SignalAccepted,
    SignalDuplicate,
)

TOKEN_VARIABLE = "FF_WAITPOINT_TOKEN"  # noqa: S105 - the name of a variable
EXPECTED_EXECUTION = f"EXECUTION: expected {ACCEPTED}"
EXPECTED_WAITPOINT = (
    "WAITPOINT: expected the UUID of a waitpoint, as `flowfabric approvals` shows it"
)
TOO_MANY = (
    "too many arguments: expected EXECUTION WAITPOINT; pass a token in --token or on standard input"
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
        str,
        typer.Argument(
            metavar="EXECUTION", help="The execution that waits; `flowfabric approvals` shows it."
        ),
    ],
    waitpoint: Annotated[str, typer.Argument(metavar="WAITPOINT", help="The waitpoint's UUID.")],
    database: Database,
    name: Annotated[str, typer.Option(metavar="NAME", help="The signal's name.")] = "approved",
    payload: Annotated[
        str | None, typer.Option(metavar="JSON", help="The payload of the signal.")
    ] = None,
    source: Annotated[str | None, typer.Option(metavar="WHO", help="Who signals.")] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="The waitpoint's token; else FF_WAITPOINT_TOKEN, else a line on standard input. "
            "The token of a server is in FF_TOKEN.",
        ),
    ] = None,
    operator: Annotated[
        bool, typer.Option("--operator", help="Decide as an operator, without a token.")
    ] = False,
) -> int:
    """Delivers a signal to a waitpoint."""
    # Errors never repeat an argument, because a token may be in the wrong position.
    if ctx.args or (database.old and os.environ.get(URL_VARIABLE)):
        raise ConfigError(TOO_MANY)
    if not looks_like_id(execution):
        raise ConfigError(EXPECTED_EXECUTION)
    waitpoint_id = parse_id(parse_uuid, waitpoint, EXPECTED_WAITPOINT, repeat=False)
    if not name:
        raise ConfigError("--name: expected the name of the signal, such as approved or rejected")
    if operator:
        _check_operator(token, payload)
    sent = None if payload is None else _payload(payload)
    proof = "" if operator else _token(token)
    proved = ProvedSignal(waitpoint_id, name, proof, source or "", sent)

    async def send(engine: EngineProtocol) -> SignalAccepted | SignalDuplicate:
        ident = await _target(engine, execution)
        if operator:
            return await _decide(engine, ident, proved)
        return await _deliver(engine, proved.args(ident))

    show(_outcome(database.write(send)))
    return 0


def _outcome(result: SignalAccepted | SignalDuplicate) -> Text:
    if isinstance(result, SignalDuplicate):
        return Text(f"already delivered as signal {result.existing_signal_id}; nothing changed")
    return Text(f"signal {result.signal_id}: {EFFECTS.get(result.effect, result.effect)}")


class ProvedSignal(Struct, frozen=True):
    """A signal with the token that allows it."""

    waitpoint_id: UUID
    name: str
    proof: str
    source: str
    payload: bytes | None

    def args(self, ident: ExecutionId) -> DeliverSignalArgs:
        return DeliverSignalArgs(
            execution_id=ident,
            waitpoint_id=self.waitpoint_id,
            signal_id=uuid.uuid4(),
            waitpoint_token=self.proof,
            signal_name=self.name,
            source_type=SOURCE_TYPE if self.source else "",
            source_identity=self.source,
            payload=self.payload,
        )


async def _target(engine: EngineProtocol, execution: str) -> ExecutionId:
    """The execution. Errors never repeat the text, because it may be a token."""
    try:
        return await execution_of(engine, execution)
    except CommandError:
        raise CommandError(Exit.NOT_FOUND, "EXECUTION: no such execution") from None


async def _deliver(
    engine: EngineProtocol, args: DeliverSignalArgs
) -> SignalAccepted | SignalDuplicate:
    try:
        return await engine.deliver_signal(args)
    except ValidationError as error:
        raise _refused(error, REFUSALS.get(error.detail, "")) from None


async def _decide(
    engine: EngineProtocol, ident: ExecutionId, signal: ProvedSignal
) -> SignalAccepted | SignalDuplicate:
    found = await engine.describe_execution(ident)
    if found is None:
        raise not_found("execution", ident)
    args = ApprovalSignalArgs(
        execution_id=ident,
        lane_id=found.lane_id,
        waitpoint_id=signal.waitpoint_id,
        signal_name=signal.name,
        source_identity=signal.source,
    )
    try:
        return await engine.deliver_approval_signal(args)
    except ValidationError as error:
        raise _refused(error, OPERATOR_REFUSED) from None


def _refused(error: ValidationError, why: str) -> FlowFabricError:
    if error.kind is not ValidationKind.INVALID_TOKEN:
        return error
    return CommandError(Exit.FAILED, f"the token was refused ({error.detail}): {why}")


def _check_operator(token: str | None, payload: str | None) -> None:
    if token is not None:
        raise ConfigError(
            "--operator and --token: only one of them is accepted; an operator needs no token"
        )
    if payload is not None:
        raise ConfigError("--operator and --payload: an operator's signal has no payload")


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
