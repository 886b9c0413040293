"""Commits that a replica has in its append file before they are answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glide import (
    Batch,
    BatchOptions,
    ClusterBatch,
    ClusterBatchOptions,
    GlideClusterClient,
    RequestError,
    SlotKeyRoute,
    SlotType,
)
from glide import ConnectionError as Lost

from flowfabric.errors import TransportError
from flowfabric.store.valkey.client import Client
from flowfabric.store.valkey.errors import CALL_TIMEOUT_MS, UNKNOWN
from flowfabric.store.valkey.options import Options
from flowfabric.store.valkey.server_checks import facts

REPLICAS = 1
RECEIVED_MS, CONFIRMED_MS = 2_000, 5_000
NO_REPLICA = f"no replica has it in its append file after {CONFIRMED_MS} ms"
_FROM_SERVER = "signalled by the server"


class Confirming:
    """A client of its own, since the server answers what follows on a connection only when the
    wait before it has ended.
    """

    def __init__(self, client: Client, options: Options) -> None:
        self.client, self._keys = client, options.declared
        self.route = SlotKeyRoute(SlotType.PRIMARY, options.prefix)
        self._local = 0
        """1 where the primary has an append file: what a replica confirmed is lost all the same
        when the primary restarts without it.
        """

    def learn(self, about: Mapping[str, str]) -> None:
        self._local = int(about.get("aof_enabled") == "1")

    async def call(self, function: str, request: bytes) -> Any:
        made, _, waited, after = await self._sent(function, request)
        if isinstance(made, Exception):
            raise _typed(made)
        before, answer = made
        if answer == b"NOFORM":
            return answer
        if isinstance(after, Exception):
            raise _unconfirmed(str(after))
        asked, about = self._local, facts(after)
        self.learn(about)
        if isinstance(waited, Exception):
            raise _unconfirmed(str(waited))
        if not follows(facts(before), about):
            raise _unconfirmed("the cell moved meanwhile")
        local, replicas = waited
        if replicas < REPLICAS:
            raise _unconfirmed(NO_REPLICA)
        if local < asked:
            raise _unconfirmed(f"the append file does not have it after {CONFIRMED_MS} ms")
        return answer

    async def close(self) -> None:
        await self.client.close()

    async def _sent(self, function: str, request: bytes) -> list[Any]:
        """The call, and behind it on the same connection the waits that cover it.

        A replica confirms its append file as it was when it was asked, so it is asked again when
        it has received the commit. It would confirm by itself only once a second.
        """
        batch = (ClusterBatch if isinstance(self.client, GlideClusterClient) else Batch)(False)
        batch.fcall(function, self._keys, [request])
        batch.custom_command(["WAIT", str(REPLICAS), str(RECEIVED_MS)])
        batch.custom_command(["WAITAOF", str(self._local), str(REPLICAS), str(CONFIRMED_MS)])
        batch.custom_command(["INFO", "replication", "persistence"])
        if isinstance(self.client, GlideClusterClient):
            options = ClusterBatchOptions(timeout=CALL_TIMEOUT_MS, route=self.route)
            answers = await self.client.exec(batch, False, options)
        else:
            answers = await self.client.exec(batch, False, BatchOptions(timeout=CALL_TIMEOUT_MS))
        assert answers is not None
        return answers


def follows(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether the commit was made by the server that waited, and before it waited.

    The driver sends a commit that was redirected once more to another server, and the wait behind
    it was answered by the first. The offset rises with the commit.
    """
    history, offset = "master_replid", "master_repl_offset"
    same = before[history] == after.get(history)
    return same and int(before[offset]) < int(after[offset])


def _typed(error: Exception) -> Exception:
    """In a batch the driver forgets the type of an error."""
    text = str(error)
    return error if _FROM_SERVER in text or not isinstance(error, RequestError) else Lost(text)


def _unconfirmed(why: str) -> TransportError:
    return TransportError("valkey", f"{why}; {UNKNOWN}", backend_kind="cluster", doubtful=True)
