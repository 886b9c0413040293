"""Clients of the driver for one server or a cluster."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

from glide import (
    AdvancedGlideClientConfiguration,
    AdvancedGlideClusterClientConfiguration,
    GlideClient,
    GlideClientConfiguration,
    GlideClusterClient,
    GlideClusterClientConfiguration,
    Logger,
    LogLevel,
    NodeAddress,
    PubSubMsg,
    RandomNode,
    ServerCredentials,
    TlsAdvancedConfiguration,
)

from flowfabric.errors import ConfigError
from flowfabric.store.valkey import reader
from flowfabric.store.valkey.errors import CALL_TIMEOUT_MS
from flowfabric.store.valkey.options import Options

Logger.init(LogLevel.OFF)  # its lines go to standard error; the errors it logs are raised as well
CONNECT_TIMEOUT_MS = 5_000
ASKED, ASK_S = 4, 1.0
Client = GlideClient | GlideClusterClient
Heard = Callable[[str, bytes], None]
"""Takes a channel and what was published to it, on a thread of the driver."""


async def opened(options: Options, heard: Heard | None) -> Client:
    """`heard` gets what is published to the cell, and to channels that `hear` adds."""
    made = _of_cluster if options.cluster else _of_server
    return await reader.opened(lambda: made(options, heard))


async def hear(client: Client, channel: str) -> None:
    """Returns when what is published to the channel arrives."""
    if isinstance(client, GlideClusterClient):
        await client.ssubscribe({channel}, CALL_TIMEOUT_MS)
    else:
        await client.subscribe({channel}, CALL_TIMEOUT_MS)


async def forget(client: Client, channel: str) -> None:
    if isinstance(client, GlideClusterClient):
        await client.sunsubscribe_lazy({channel})
    else:
        await client.unsubscribe_lazy({channel})


async def publish(client: Client, channel: str, message: bytes) -> None:
    if isinstance(client, GlideClusterClient):
        await client.publish(message, channel, sharded=True)
    else:
        await client.publish(message, channel)


async def _of_cluster(options: Options, heard: Heard | None) -> GlideClusterClient:
    made = GlideClusterClientConfiguration
    wanted = None
    if heard is not None:
        sharded = {made.PubSubChannelModes.Sharded: {options.channel}}
        wanted = made.PubSubSubscriptions(sharded, _listener(heard), None)
    return await GlideClusterClient.create(
        made(
            _addresses(options),
            options.tls,
            _credentials(options),
            request_timeout=CALL_TIMEOUT_MS,
            pubsub_subscriptions=wanted,
            advanced_config=AdvancedGlideClusterClientConfiguration(
                CONNECT_TIMEOUT_MS, tls_config=_tls(options)
            ),
        )
    )


async def _of_server(options: Options, heard: Heard | None) -> GlideClient:
    made = GlideClientConfiguration
    wanted = None
    if heard is not None:
        exact = {made.PubSubChannelModes.Exact: {options.channel}}
        wanted = made.PubSubSubscriptions(exact, _listener(heard), None)
    return await GlideClient.create(
        made(
            _addresses(options),
            options.tls,
            _credentials(options),
            request_timeout=CALL_TIMEOUT_MS,
            pubsub_subscriptions=wanted,
            advanced_config=AdvancedGlideClientConfiguration(
                CONNECT_TIMEOUT_MS, tls_config=_tls(options)
            ),
        )
    )


async def look_around(client: Client, options: Options) -> None:
    """Asks other servers of a cluster, since a silent one does not say that it lost the cell.

    One that answers that the cell is elsewhere makes the driver ask for the new order.
    """
    if isinstance(client, GlideClusterClient):
        asked = (_exists(client, options.prefix) for _ in range(ASKED))
        await asyncio.gather(*asked, return_exceptions=True)


async def tls_problem(options: Options) -> str:
    """Why TLS fails, which the driver reports as a lack of time."""
    if not options.tls:
        return ""
    context = ssl.create_default_context(cafile=options.ca or None)
    try:
        async with asyncio.timeout(ASK_S):
            _, link = await asyncio.open_connection(options.host, options.port, ssl=context)
            link.close()
    except ssl.SSLCertVerificationError as error:
        hint = "ca=FILE in the URL names the certificate of its issuer"
        return f"the certificate of the server is refused ({error.verify_message}); {hint}"
    except ssl.SSLError as error:
        return f"TLS fails ({error.reason}); is it a port with TLS?"
    except TimeoutError:
        return "no answer to TLS; is the server there, and is it a port with TLS?"
    except OSError:
        pass
    return ""


async def _exists(client: GlideClusterClient, key: str) -> None:
    async with asyncio.timeout(ASK_S):
        await client.custom_command(["EXISTS", key], RandomNode())


def _listener(heard: Heard) -> Callable[[PubSubMsg, object], None]:
    def listen(message: PubSubMsg, _: object) -> None:
        heard(_text(message.channel), _bytes(message.message))

    return listen


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _bytes(value: bytes | str) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _addresses(options: Options) -> list[NodeAddress]:
    return [NodeAddress(options.host, options.port)]


def _credentials(options: Options) -> ServerCredentials | None:
    if not options.password:
        return None
    return ServerCredentials(options.password, options.user or None)


def _tls(options: Options) -> TlsAdvancedConfiguration | None:
    if not options.ca:
        return None
    try:
        found = Path(options.ca).read_bytes()
    except OSError as error:
        raise ConfigError(f"url: ca: {options.ca}: {error.strerror or error}") from None
    if b"BEGIN CERTIFICATE" not in found:
        raise ConfigError(f"url: ca: {options.ca}: a file of certificates in PEM is accepted")
    return TlsAdvancedConfiguration(root_pem_cacerts=found)
