"""The bytes of a handle: little-endian integers; text as four bytes of length, then UTF-8."""

from __future__ import annotations

import struct
from uuid import UUID

from flowfabric.errors import ValidationError, ValidationKind
from flowfabric.ids import ExecutionId, ExecutionIdError, parse_uuid, uuid_text
from flowfabric.model.lease import BackendTag, Handle, HandleFields

_V1, _V2, _WIRE_VERSION = 0x01, 0x02, 0x01
MAX_HANDLE_BYTES = 4_096
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_IDS = struct.Struct("<II36sI36s")
_LEASE = struct.Struct("<QQI")
_HEADS = {tag: bytes((_V2, _WIRE_VERSION, tag)) for tag in BackendTag}


def encode_handle(fields: HandleFields) -> bytes:
    ident, lane, worker = (
        fields.execution_id.encode(),
        fields.lane_id.encode(),
        fields.worker_instance_id.encode(),
    )
    return b"".join(
        (
            _HEADS[fields.tag],
            _U32.pack(len(ident)),
            ident,
            _IDS.pack(
                fields.attempt_index,
                36,
                uuid_text(fields.attempt_id).encode(),
                36,
                uuid_text(fields.lease_id).encode(),
            ),
            _LEASE.pack(fields.lease_epoch, fields.lease_ttl_ms, len(lane)),
            lane,
            _U32.pack(len(worker)),
            worker,
        )
    )


def decode_handle(handle: Handle, expected: BackendTag) -> HandleFields:
    """Decodes the bytes, and checks that the backend label and the tag are the expected ones."""
    if not isinstance(handle, Handle) or not isinstance(handle.opaque, bytes):
        raise _corrupt("not a handle")
    fields = decode_fields(handle.opaque)
    if handle.backend != expected.label:
        raise _foreign(expected, str(handle.backend))
    if fields.tag is not expected:
        raise _foreign(expected, f"{fields.tag.label} (embedded tag)")
    return fields


def decode_fields(data: bytes) -> HandleFields:
    if len(data) > MAX_HANDLE_BYTES:
        raise _corrupt(f"longer than {MAX_HANDLE_BYTES} bytes")
    reader = _Reader(data)
    magic = reader.byte()
    if magic == _V1:
        tag = BackendTag.VALKEY
    elif magic == _V2:
        version = reader.byte()
        if version != _WIRE_VERSION:
            raise _corrupt(f"BadWireVersion {version}")
        tag = _tag(reader.byte())
    else:
        raise _corrupt(f"BadV1Version {magic}")
    fields = HandleFields(
        tag,
        reader.execution_id(),
        reader.u32(),
        reader.uuid("attempt_id"),
        reader.uuid("lease_id"),
        reader.u64(),
        reader.u64(),
        reader.text("lane_id"),
        reader.text("worker_instance_id"),
    )
    reader.end()
    return fields


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise _corrupt(
                f"Truncated needed={count} at={self._at} have={len(self._data) - self._at}"
            )
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def byte(self) -> int:
        return self.take(1)[0]

    def u32(self) -> int:
        return int(_U32.unpack(self.take(4))[0])

    def u64(self) -> int:
        return int(_U64.unpack(self.take(8))[0])

    def text(self, field: str) -> str:
        try:
            return self.take(self.u32()).decode()
        except UnicodeDecodeError:
            raise _corrupt(f"InvalidUtf8 {field}") from None

    def uuid(self, field: str) -> UUID:
        try:
            return parse_uuid(self.text(field))
        except ValueError:
            raise _corrupt(f"ParseField {field}: not a uuid") from None

    def execution_id(self) -> ExecutionId:
        try:
            return ExecutionId(self.text("execution_id"))
        except ExecutionIdError as error:
            raise _corrupt(f"ParseField execution_id: {error.reason}") from None

    def end(self) -> None:
        if self._at != len(self._data):
            raise _corrupt(f"TrailingBytes pos={self._at} len={len(self._data)}")


def _tag(byte: int) -> BackendTag:
    try:
        return BackendTag(byte)
    except ValueError:
        raise _corrupt(f"BadBackendTag {byte}") from None


def _corrupt(message: str) -> ValidationError:
    return ValidationError(ValidationKind.CORRUPTION, f"handle_codec: {message}")


def _foreign(expected: BackendTag, actual: str) -> ValidationError:
    return ValidationError(
        ValidationKind.HANDLE_FROM_OTHER_BACKEND, f"expected={expected.label} actual={actual:.40}"
    )
