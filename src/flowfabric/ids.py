"""Identifiers: execution ids, lanes, partitions, tag keys, and the hashes that place them."""

from __future__ import annotations

import binascii
import hashlib
import os
import re
import time
import uuid
from functools import lru_cache
from random import Random
from typing import NewType
from uuid import UUID, SafeUUID

from flowfabric.errors import invalid

FlowId = NewType("FlowId", UUID)
LeaseId = NewType("LeaseId", UUID)
AttemptId = NewType("AttemptId", UUID)
LaneId = NewType("LaneId", str)

FLOW_PARTITIONS = 256
BUDGET_PARTITIONS = QUOTA_PARTITIONS = 32
"""For clients that compute partitions; the stores address budgets and quotas by id."""
MAX_PARTITION_INDEX = 65_535
MAX_LANE_BYTES = 64
MAX_NAME_BYTES = 256
INSTANCE_TAG_KEY = "cairn.instance_id"

_EXECUTION_ID = re.compile(r"\{fp:([^}]*)\}:(.*)\Z", re.DOTALL)
_DECIMAL = re.compile(r"\+?0*([0-9]{1,5})\Z")
_HYPHENATED = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_UUID = re.compile(
    rf"(?:{_HYPHENATED}|[0-9a-fA-F]{{32}}|\{{{_HYPHENATED}\}}|urn:uuid:{_HYPHENATED})\Z"
)
_TAG_KEY = re.compile(r"[a-z][a-z0-9_]*\.[a-z0-9_][a-z0-9_.]*\Z")
_PARTITION_KEY = re.compile(r"\{(fp|b|q):([0-9]{1,5})\}\Z")


class ExecutionIdError(ValueError):
    """`reason` is MissingTag, InvalidPartitionIndex or InvalidUuid."""

    def __init__(self, reason: str, text: str) -> None:
        self.reason = reason
        super().__init__(
            f"{reason}: {text[:80]!r} is not an execution id of the form {{fp:N}}:<uuid>"
        )


class ExecutionId(str):
    """`{fp:N}:<uuid>`. A string with its partition and its uuid; ordered by its full text."""

    __slots__ = ("partition_index", "uuid")

    partition_index: int
    uuid: UUID

    def __new__(cls, text: str) -> ExecutionId:
        if isinstance(text, ExecutionId):
            return text
        found = _EXECUTION_ID.match(text)
        if found is None:
            raise ExecutionIdError("MissingTag", text)
        stated, suffix = found.groups()
        digits = _DECIMAL.match(stated)
        if digits is None or int(digits[1]) > MAX_PARTITION_INDEX:
            raise ExecutionIdError("InvalidPartitionIndex", text)
        try:
            parsed = parse_uuid(suffix)
        except ValueError:
            raise ExecutionIdError("InvalidUuid", text) from None
        return cls.of(int(digits[1]), parsed)

    @classmethod
    def of(cls, partition: int, ident: UUID) -> ExecutionId:
        made = str.__new__(cls, f"{{fp:{partition}}}:{uuid_text(ident)}")
        made.partition_index, made.uuid = partition, ident
        return made

    @classmethod
    def solo(
        cls, lane: str, ident: UUID | None = None, partitions: int = FLOW_PARTITIONS
    ) -> ExecutionId:
        """A new id for an execution outside of flows; its lane determines the partition."""
        return cls.of(_lane_partition(lane, partitions), ident or time_ordered_uuid())

    @classmethod
    def for_flow(
        cls, flow_id: UUID, ident: UUID | None = None, partitions: int = FLOW_PARTITIONS
    ) -> ExecutionId:
        """A new id for a member of a flow, in the partition of the flow."""
        return cls.of(partition_of(flow_id, partitions), ident or time_ordered_uuid())

    @property
    def key(self) -> tuple[int, UUID]:
        """The primary key of its row."""
        return self.partition_index, self.uuid

    @property
    def owner(self) -> dict[str, int | UUID]:
        """The group of its rows in an index by execution."""
        return {"partition_key": self.partition_index, "execution_id": self.uuid}

    def __reduce__(self) -> tuple[type[ExecutionId], tuple[str]]:
        return ExecutionId, (str(self),)


def parse_uuid(text: str) -> UUID:
    """A uuid, hyphenated, as 32 digits, in braces, or as a urn. `UUID` itself accepts more."""
    if not _UUID.match(text):
        raise ValueError(f"not a uuid: {text[:80]!a}")
    return UUID(text)


def execution_id(value: object, field: str = "execution_id") -> ExecutionId:
    """Checks and parses a caller's execution id."""
    if isinstance(value, ExecutionId):
        return value
    if not isinstance(value, str):
        raise invalid(field, "an execution id of the form {fp:N}:<uuid>", value)
    try:
        return ExecutionId(value)
    except ExecutionIdError as error:
        raise invalid(field, str(error)) from None


_PLAIN = re.compile(r"[ -~]{1,64}\Z")
_seen: set[str] = set()
MAX_SEEN = 1_000


def _is_plain(value: str) -> bool:
    """Short printable ASCII. Most names are, and have been seen before."""
    if value in _seen:
        return True
    if not _PLAIN.match(value):
        return False
    if len(_seen) < MAX_SEEN:
        _seen.add(value)
    return True


def lane_id(value: object, field: str = "lane_id") -> LaneId:
    """1 to 64 bytes of printable ASCII."""
    if type(value) is str and (value in _seen or _is_plain(value)):
        return LaneId(value)
    if not isinstance(value, str) or not value:
        raise invalid(field, f"1 to {MAX_LANE_BYTES} printable ASCII characters (Empty)", value)
    raw = value.encode(errors="surrogatepass")
    if len(raw) > MAX_LANE_BYTES:
        raise invalid(field, f"at most {MAX_LANE_BYTES} bytes (TooLong({len(raw)}))", value)
    for at, byte in enumerate(raw):
        if not 0x20 <= byte <= 0x7E:
            raise invalid(field, f"printable ASCII only (NonPrintable({at}))", value)
    return LaneId(value)


def name(value: object, field: str, *, empty: bool = False) -> str:
    """A worker, namespace, kind or identity: bounded text."""
    if type(value) is str and (value in _seen or _is_plain(value)):
        return value
    if not isinstance(value, str) or (not value and not empty):
        raise invalid(field, f"text of 1 to {MAX_NAME_BYTES} bytes", value)
    if len(value) > MAX_NAME_BYTES or len(value.encode(errors="surrogatepass")) > MAX_NAME_BYTES:
        raise invalid(field, f"text of at most {MAX_NAME_BYTES} bytes", value)
    if any("\ud800" <= ch <= "\udfff" or ch == "\0" for ch in value):
        raise invalid(field, "valid Unicode text without NUL")
    return value


def tag_key(value: object) -> str:
    if not isinstance(value, str) or not _TAG_KEY.match(value):
        raise invalid("tag key", "owner.name in lower case, such as app.session_id", value)
    return value


def tag_key_is_valid(value: object) -> bool:
    return isinstance(value, str) and _TAG_KEY.match(value) is not None


def partition_key(value: object, field: str = "partition_key") -> int:
    """The index of an execution partition, given as {fp:N} or as a number."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_PARTITION_INDEX:
        return value
    found = _PARTITION_KEY.match(value) if isinstance(value, str) else None
    if found is None or found[1] != "fp" or int(found[2]) > MAX_PARTITION_INDEX:
        raise invalid(field, "an execution partition such as {fp:7}", value)
    return int(found[2])


def partition_tag(index: int) -> str:
    return f"{{fp:{index}}}"


def crc16(data: bytes) -> int:
    """CRC-16/XMODEM."""
    return binascii.crc_hqx(data, 0)


def partition_of(ident: UUID, partitions: int) -> int:
    return crc16(ident.bytes) % partitions


@lru_cache(maxsize=1_024)
def _lane_partition(lane: str, partitions: int) -> int:
    return crc16(lane.encode()) % partitions


def fnv1a_u64(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def fnv1a_u16_mod(text: str, modulus: int) -> int:
    return (fnv1a_u64(text.encode()) & 0xFFFF) % modulus if modulus else 0


def fnv1a_xor8hex(text: str) -> str:
    value = fnv1a_u64(text.encode())
    return f"{(value & 0xFFFFFFFF) ^ (value >> 32):08x}"


_dice = Random()  # noqa: S311 - names, not secrets
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_dice.seed)


def time_ordered_uuid() -> UUID:
    """A version 7 uuid whose first random bits are fractions of the millisecond, for sorting."""
    ms, ns = divmod(time.time_ns(), 1_000_000)
    fraction = ns * 4096 // 1_000_000
    return uuid_of(ms << 80 | 0x7 << 76 | fraction << 64 | 0x2 << 62 | _dice.getrandbits(62))


_UNKNOWN = SafeUUID.unknown
_set_number, _set_safety = UUID.int.__set__, UUID.is_safe.__set__  # type: ignore[attr-defined,misc]


def uuid_text(ident: UUID) -> str:
    """Like `str(ident)`, a fifth faster."""
    return hyphenated(ident.int.to_bytes(16, "big").hex())


def hyphenated(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def uuid_of(number: int) -> UUID:
    """Like `UUID(int=number)`, three times as fast, without its checks."""
    made = UUID.__new__(UUID)
    _set_number(made, number)
    _set_safety(made, _UNKNOWN)
    return made


def lease_mark(lease: UUID | None) -> UUID | None:
    """A hash of a lease id, which distinguishes leases but is no credential."""
    return None if lease is None else UUID(bytes=hashlib.sha256(lease.bytes).digest()[:16])


def new_lease_id() -> LeaseId:
    return LeaseId(uuid.uuid4())


def new_attempt_id() -> AttemptId:
    return AttemptId(uuid.uuid4())
