"""For services that take signals from outside: the token that was shown is compared with that of the waitpoint."""

from __future__ import annotations

import hmac
from uuid import UUID

from msgspec import structs

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import EngineError, FlowFabricError
from flowfabric.ids import ExecutionId, execution_id
from flowfabric.model.waitpoint import DeliverSignalArgs, SignalAccepted, SignalDuplicate


class BridgeError(FlowFabricError):
    """`status` is the answer that suits HTTP."""

    status = 500


class UnknownWaitpoint(BridgeError):
    """There is no such open waitpoint, or its key is gone."""

    status = 404


class TokenMismatch(BridgeError):
    """The token shown is not that of the waitpoint."""

    status = 401


class Backend(BridgeError):
    """The engine refused or could not be reached; `__cause__` says why."""


async def verify_and_deliver(
    engine: EngineProtocol,
    execution: ExecutionId,
    waitpoint_id: UUID,
    presented_token: str,
    signal: DeliverSignalArgs,
) -> SignalAccepted | SignalDuplicate:
    """Delivers a signal to a waitpoint for one who has shown its token."""
    ident = execution_id(execution)
    try:
        stored = await engine.read_waitpoint_token(ident.partition_index, waitpoint_id)
    except EngineError as error:
        raise Backend(f"waitpoint {waitpoint_id}: its token could not be read") from error
    if stored is None:
        raise UnknownWaitpoint(f"waitpoint {waitpoint_id} is not open")
    if not hmac.compare_digest(stored.encode(), presented_token.encode(errors="surrogatepass")):
        raise TokenMismatch(f"waitpoint {waitpoint_id}: the token does not fit")
    told = structs.replace(
        signal, execution_id=ident, waitpoint_id=waitpoint_id, waitpoint_token=stored
    )
    try:
        return await engine.deliver_signal(told)
    except EngineError as error:
        raise Backend(f"waitpoint {waitpoint_id}: {error}") from error
