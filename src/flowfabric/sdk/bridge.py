"""For services that receive signals from outside: verifies the token, then delivers the signal."""

from __future__ import annotations

import hmac
from uuid import UUID

from msgspec import structs

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import EngineError, FlowFabricError
from flowfabric.ids import ExecutionId, execution_id
from flowfabric.model.waitpoint import DeliverSignalArgs, SignalAccepted, SignalDuplicate


class BridgeError(FlowFabricError):
    """`status` is the matching HTTP status."""

    status = 500


class UnknownWaitpoint(BridgeError):
    """The waitpoint is not open, or its signing key has been removed."""

    status = 404


class TokenMismatch(BridgeError):
    """The token is not that of the waitpoint."""

    status = 401


class Backend(BridgeError):
    """The engine refused, or could not be reached; `__cause__` is its error."""


async def verify_and_deliver(
    engine: EngineProtocol,
    execution: ExecutionId,
    waitpoint_id: UUID,
    presented_token: str,
    signal: DeliverSignalArgs,
) -> SignalAccepted | SignalDuplicate:
    """Delivers the signal if `presented_token` is the token of the waitpoint."""
    ident = execution_id(execution)
    try:
        stored = await engine.read_waitpoint_token(ident.partition_index, waitpoint_id)
    except EngineError as error:
        raise Backend(f"waitpoint {waitpoint_id}: its token could not be read") from error
    if stored is None:
        raise UnknownWaitpoint(f"waitpoint {waitpoint_id} is not open")
    if not hmac.compare_digest(stored.encode(), presented_token.encode(errors="surrogatepass")):
        raise TokenMismatch(f"waitpoint {waitpoint_id}: the token does not match")
    verified = structs.replace(
        signal, execution_id=ident, waitpoint_id=waitpoint_id, waitpoint_token=stored
    )
    try:
        return await engine.deliver_signal(verified)
    except EngineError as error:
        raise Backend(f"waitpoint {waitpoint_id}: {error}") from error
