"""The raw limit on Valkey: bare valkey-glide that writes the very fields and index entries the
engine writes, in batches, with no rule in between.

The commands of a batch are in a function of the server, which is faster than a pipeline of them:
the client has one value to pack for each execution and not thirty commands.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from uuid import UUID, uuid4

import msgpack
from glide import GlideClient, GlideClientConfiguration, NodeAddress

from benchmarks.raw import PAYLOAD
from flowfabric.store.schema import INDEXES, TABLES
from flowfabric.store.valkey.encoding import part_of_key
from flowfabric.store.valkey.lua_schema import INDEX_CODES, TABLE_CODES, codes

BATCH = 100
WARM_UP = 1_000
PREFIX = "{raw}:"
PARTITION = 86
Phase = Callable[[list[UUID], list[UUID]], Awaitable[None]]
_EXEC, _ATTEMPT = "ff_exec_core", "ff_attempt"
_LEASES, _ENDS = "ff_lease_event", "ff_completion_event"
_NONE = "'\\127\\255\\255\\255\\255\\255\\255\\255'"


def _lua() -> str:
    head = "#!lua name=raw\nlocal call, P\n"
    head += "local function int(n) return struct.pack('>I4I4', 2147483648 + "
    head += "math.floor(n / 4294967296), n % 4294967296) end\n"
    return head + "".join((_create(), _claim(), _complete()))


def _function(name: str, *lines: str) -> str:
    """`id`, `lease` and their times for each of the batch; `pk` is the key of the execution."""
    body = "\n    ".join(lines)
    return f"""server.register_function('raw_{name}', function(keys, args)
  call, P = server.call, keys[1]
  local now, items = unpack(cmsgpack.unpack(args[1]))
  local until_ = string.format('%.0f', now + 30000)
  local renew = string.format('%.0f', now + 20000)
  local at, expires, number = int(now), int(now + 30000), nil
  now = string.format('%.0f', now)
  for i, item in ipairs(items) do
    local id, lease, payload = item[1], item[2], item[3]
    local pk = {_bytes(part_of_key("int", PARTITION))} .. id
    {body}
  end
  return #items
end)
"""


def _bytes(value: bytes) -> str:
    return "'" + "".join(f"\\{byte:03d}" for byte in value) + "'"


def _hset(table: str, key: str, values: Mapping[str, str], *, apart: bool = False) -> str:
    fields = codes(TABLES[table].names)
    named = ", ".join(f"'{fields[column]}', {value}" for column, value in values.items())
    return f"call('HSET', P .. '{'L' if apart else ''}{TABLE_CODES[table]}' .. {key}, {named})"


def _hdel(table: str, key: str, *columns: str) -> str:
    fields = codes(TABLES[table].names)
    named = ", ".join(f"'{fields[column]}'" for column in columns)
    return f"call('HDEL', P .. '{TABLE_CODES[table]}' .. {key}, {named})"


def _listed(table: str, key: str) -> str:
    return f"call('ZADD', P .. '{TABLE_CODES[table]}', 0, {key})"


def _entry(command: str, index: str, group: str, member: str) -> list[str]:
    code, score = INDEX_CODES[index], "0, " if command == "ZADD" else ""
    lines = [f"call('{command}', P .. '{code}' .. {group}, {score}{member})"]
    if command == "ZADD" and INDEXES[index].group:
        lines.append(f"call('ZADD', P .. 'D{code}', 0, {group})")
    return lines


def _event(table: str, index: str, values: Mapping[str, str]) -> list[str]:
    counter = f"P .. 'N{TABLE_CODES[table]}'"
    given = {"partition_key": f"'{PARTITION}'", "namespace": "'default'", "execution_id": "id"}
    return [
        f"number = call('INCR', {counter})",
        "local no = int(number)",
        _hset(table, "no", {"event_id": "number", **given, **values, "occurred_at_ms": "now"}),
        _listed(table, "no"),
        *_entry("ZADD", index, "id", "no .. no"),
    ]


def _lease_event(kind: str, **more: str) -> list[str]:
    values = {
        "event_type": f"'{kind}'",
        "lease_id": "lease",
        "lease_epoch": "'1'",
        "worker_instance_id": "'bench-1'",
        **more,
    }
    return ["do", *_event(_LEASES, "lease_events_of", values), "end"]


_UNOWNED = ("unowned", "''", "at .. id .. pk")
_READY = ("ready", "'bench\\0default\\0\\0'", f"{_NONE} .. at .. id .. pk")
_LEASED = ("leased", "''", "expires .. id .. pk")


def _create() -> str:
    row = {
        "partition_key": f"'{PARTITION}'",
        "execution_id": "id",
        "lane_id": "'bench'",
        "execution_kind": "'bench'",
        "lifecycle_phase": "'runnable'",
        "eligibility_state": "'eligible_now'",
        "blocking_reason": "'waiting_for_worker'",
        "public_state": "'waiting'",
        "attempt_state": "'pending_first_attempt'",
        "created_at_ms": "now",
        "last_transition_at": "now",
        "last_mutation_at": "now",
    }
    return _function(
        "create",
        _hset(_EXEC, "pk", row),
        _hset(_EXEC, "pk", {"payload": "payload"}, apart=True),
        _listed(_EXEC, "pk"),
        *_entry("ZADD", *_UNOWNED),
        *_entry("ZADD", *_READY),
    )


def _claim() -> str:
    times = ("started_at_ms", "lease_acquired_at", "lease_last_renewed_at")
    row = {
        "version": "'1'",
        "lifecycle_phase": "'active'",
        "ownership_state": "'leased'",
        "eligibility_state": "'not_applicable'",
        "public_state": "'active'",
        "attempt_state": "'running_attempt'",
        "lease_epoch": "'1'",
        "total_attempt_count": "'1'",
        "current_lease_id": "lease",
        "current_attempt_id": "lease",
        "current_worker_id": "'bench'",
        "current_worker_instance_id": "'bench-1'",
        "lease_expires_at_ms": "until_",
        "lease_renewal_deadline": "renew",
        **dict.fromkeys((*times, "last_transition_at", "last_mutation_at"), "now"),
    }
    attempt = {
        "partition_key": f"'{PARTITION}'",
        "execution_id": "id",
        "attempt_index": "'0'",
        "attempt_id": "lease",
        "attempt_state": "'started'",
        "worker_id": "'bench'",
        "worker_instance_id": "'bench-1'",
        "lease_id": "lease",
        "lease_epoch": "'1'",
        "lease_expires_at_ms": "until_",
        "created_at_ms": "now",
        "started_at_ms": "now",
    }
    first = f"pk .. {_bytes(part_of_key('int', 0))}"
    return _function(
        "claim",
        _hset(_EXEC, "pk", row),
        _hdel(_EXEC, "pk", "blocking_reason"),
        *(line for entry in (_UNOWNED, _READY) for line in _entry("ZREM", *entry)),
        *_entry("ZADD", *_LEASED),
        _hset(_ATTEMPT, first, attempt),
        _listed(_ATTEMPT, first),
        *_lease_event("acquired"),
    )


def _complete() -> str:
    row = {
        "version": "'2'",
        "lifecycle_phase": "'terminal'",
        "terminal_outcome": "'success'",
        "public_state": "'completed'",
        "attempt_state": "'attempt_terminal'",
        "closing_epoch": "'1'",
        "closing_attempt_index": "'0'",
        **dict.fromkeys(("terminal_at_ms", "last_transition_at", "last_mutation_at"), "now"),
    }
    unset = (
        "ownership_state",
        "current_lease_id",
        "current_worker_id",
        "current_worker_instance_id",
        "lease_expires_at_ms",
        "lease_last_renewed_at",
        "lease_renewal_deadline",
    )
    ended = {"attempt_state": "'ended_success'", "outcome": "'success'", "terminal_at_ms": "now"}
    first = f"pk .. {_bytes(part_of_key('int', 0))}"
    outcome = {"outcome": "'success'", "committed_at_ms": "now"}
    return _function(
        "complete",
        _hset(_EXEC, "pk", row),
        _hdel(_EXEC, "pk", *unset),
        _hset(_EXEC, "pk", {"result": "payload"}, apart=True),
        *_entry("ZADD", *_UNOWNED),
        *_entry("ZREM", *_LEASED),
        *_entry("ZADD", "ended", "'bench\\0'", "at .. id .. pk"),
        _hset(_ATTEMPT, first, ended),
        _hdel(_ATTEMPT, first, "lease_expires_at_ms"),
        *_lease_event("revoked", reason="'completed'"),
        "do",
        *_event(_ENDS, "completion_events_of", outcome),
        "end",
    )


class RawValkeyLives:
    """Whole lives of executions: created, claimed, completed."""

    def __init__(self, client: GlideClient) -> None:
        self._client = client
        self._now = time.time_ns() // 1_000_000

    @classmethod
    async def open(cls, port: int) -> RawValkeyLives:
        client = await GlideClient.create(
            GlideClientConfiguration([NodeAddress("127.0.0.1", port)], request_timeout=10_000)
        )
        await client.function_load(_lua(), replace=True)
        made = cls(client)
        await made.lives(WARM_UP)
        return made

    async def close(self) -> None:
        await self._client.close()

    async def lives(self, n: int, batch: int = BATCH) -> float:
        """Seconds for n executions, each phase in batches."""
        idents, leases = sorted(uuid4() for _ in range(n)), [uuid4() for _ in range(n)]
        started = time.perf_counter()
        for phase in (self.create, self.claim, self.complete):
            for at in range(0, n, batch):
                await phase(idents[at : at + batch], leases[at : at + batch])
        return time.perf_counter() - started

    async def one_by_one(self, n: int) -> list[float]:
        """Seconds for each of n lives, three calls a life."""
        samples = []
        for _ in range(n):
            ident, lease = [uuid4()], [uuid4()]
            started = time.perf_counter()
            for phase in (self.create, self.claim, self.complete):
                await phase(ident, lease)
            samples.append(time.perf_counter() - started)
        return samples

    async def create(self, idents: list[UUID], leases: list[UUID]) -> None:
        await self._call("raw_create", [(i.bytes, b"", PAYLOAD) for i in idents])

    async def claim(self, idents: list[UUID], leases: list[UUID]) -> None:
        await self._call("raw_claim", _pairs(idents, leases))

    async def complete(self, idents: list[UUID], leases: list[UUID]) -> None:
        await self._call("raw_complete", _pairs(idents, leases, b"ok"))

    async def _call(self, function: str, items: list[tuple[bytes, ...]]) -> None:
        request = msgpack.packb((self._now, items), use_bin_type=False)
        written = await self._client.fcall(function, [PREFIX], [request])
        assert written == len(items), f"{written} of {len(items)} written"


def _pairs(idents: list[UUID], leases: list[UUID], *more: bytes) -> list[tuple[bytes, ...]]:
    return [(i.bytes, x.bytes, *more) for i, x in zip(idents, leases, strict=True)]
