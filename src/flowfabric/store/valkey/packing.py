"""msgpack as the server reads it: texts and bytes are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack

UNSTORABLE = (TypeError, ValueError, OverflowError)
"""What packing raises for a value that no column can hold."""
_FEW = 15
_packer = msgpack.Packer(use_bin_type=False, autoreset=True)


def packed(value: object) -> bytes:
    data: bytes = _packer.pack(value)
    return data


def joined(parts: Sequence[bytes]) -> bytes:
    """An array of values that are packed already."""
    count = len(parts)
    head = bytes([0x90 | count]) if count <= _FEW else b"\xdd" + count.to_bytes(4, "big")
    return head + b"".join(parts)


def unpacked(data: bytes) -> Any:
    return msgpack.unpackb(data, raw=True)
