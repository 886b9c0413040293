"""The corpus for other languages is up to date, and follows from the written rules without the code
that made it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from typing import Any
from uuid import UUID

from flowfabric.codec.event_cursor import decode_cursor
from flowfabric.codec.handle import decode_fields
from tests.compat import shared_corpus
from tests.compat.corpus import FILE, text

CORPUS: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


def crc16(data: bytes) -> int:
    """CRC-16/XMODEM."""
    value = 0
    for byte in data:
        value ^= byte << 8
        for _ in range(8):
            value = ((value << 1) ^ 0x1021 if value & 0x8000 else value << 1) & 0xFFFF
    return value


def test_the_file_is_what_the_command_writes() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "run: python -m tests.compat.corpus"


def test_partitions() -> None:
    counts = CORPUS["partitions"]
    for one in CORPUS["partition_of_uuid"]:
        for kind in ("flow", "budget"):
            assert one[kind] == crc16(UUID(one["uuid"]).bytes) % counts[kind]
    for one in CORPUS["execution_ids"]:
        hashed = UUID(one["flow_id"]).bytes if "flow_id" in one else one["lane"].encode()
        assert one["execution_id"] == f"{{fp:{crc16(hashed) % counts['flow']}}}:{one['uuid']}"


def test_spellings() -> None:
    shown = {one.get("execution_id") for one in CORPUS["execution_id_spellings"]} - {None}
    assert shown == {
        f"{{fp:{at}}}:{head}-2222-4333-8444-555555555555"
        for at, head in ((7, "1" * 8), (7, "a" * 8), (65535, "1" * 8))
    }
    assert {one.get("error") for one in CORPUS["execution_id_spellings"]} - {None} == {
        "MissingTag",
        "InvalidPartitionIndex",
        "InvalidUuid",
    }


def test_handles() -> None:
    def packed(value: str) -> bytes:
        return struct.pack("<I", len(value.encode())) + value.encode()

    for one in CORPUS["handles"]:
        body = (
            packed(one["execution_id"])
            + struct.pack("<I", one["attempt_index"])
            + packed(one["attempt_id"])
            + packed(one["lease_id"])
            + struct.pack("<QQ", one["lease_epoch"], one["lease_ttl_ms"])
            + packed(one["lane_id"])
            + packed(one["worker_instance_id"])
        )
        assert one["hex"] == (bytes((2, 1, one["tag"])) + body).hex()
        assert str(decode_fields(bytes.fromhex(one["hex"])).execution_id) == one["execution_id"]


def test_tokens() -> None:
    for one in CORPUS["tokens"]:
        message = ":".join(
            filter(None, (one["kid"], one["execution_id"], one["waitpoint_id"], one["approver"]))
        )
        digest = hmac.new(
            bytes.fromhex(one["secret_hex"]), message.encode(), hashlib.sha256
        ).hexdigest()
        assert (one["token"], one["fingerprint"]) == (f"{one['kid']}:{digest}", digest[:16])


def test_event_cursors() -> None:
    for one in CORPUS["event_cursors"]:
        assert one["hex"] == "02" + one["number"].to_bytes(8, "big").hex()
        assert decode_cursor(bytes.fromhex(one["hex"]), "test") == one["number"]


# ---- the document that all implementations share


def test_the_shared_document_is_the_same_to_the_byte() -> None:
    written = shared_corpus.FILE.read_bytes()
    assert written.decode() == shared_corpus.text()
    digest = "72a3858cd3aae8e5e720e202cb2fedbe5517d405afe4e43d97a53e55f0674872"
    assert (len(written), hashlib.sha256(written).hexdigest()) == (5_753, digest)
