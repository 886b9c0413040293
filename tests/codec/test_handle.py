from __future__ import annotations

from uuid import UUID

import msgspec
import pytest

from flowfabric.codec.handle import MAX_HANDLE_BYTES, decode_fields, decode_handle, encode_handle
from flowfabric.errors import ValidationError, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import BackendTag, Handle, HandleFields, HandleKind

GOLDEN_FIELDS = HandleFields(
    BackendTag.SQLITE,
    ExecutionId("{fp:0}:11111111-1111-1111-1111-111111111111"),
    1,
    UUID("22222222-2222-2222-2222-222222222222"),
    UUID("33333333-3333-3333-3333-333333333333"),
    7,
    30_000,
    "default",
    "wi-1",
)
GOLDEN = bytes.fromhex(
    "020103 2b000000 7b66703a307d3a31313131313131312d313131312d"
    "313131312d313131312d313131313131313131313131"
    "01000000 24000000 32323232323232322d323232322d323232322d323232322d323232323232323232323232"
    "24000000 33333333333333332d333333332d333333332d333333332d333333333333333333333333"
    "0700000000000000 3075000000000000 07000000 64656661756c74 04000000 77692d31"
)
# Where each field of the golden bytes begins.
EXECUTION_ID, ATTEMPT_ID, LEASE_ID, LANE, WORKER = 3, 54, 94, 150, 161


def text(value: bytes) -> bytes:
    return len(value).to_bytes(4, "little") + value


def corruption(data: bytes) -> str:
    with pytest.raises(ValidationError) as raised:
        decode_fields(data)
    assert raised.value.kind is ValidationKind.CORRUPTION
    said, _, message = raised.value.detail.partition(": ")
    assert said == "handle_codec"
    return message


def test_the_golden_handle_is_written_byte_for_byte() -> None:
    assert len(GOLDEN) == 169
    assert encode_handle(GOLDEN_FIELDS) == GOLDEN


def test_the_golden_handle_is_read_field_by_field() -> None:
    assert decode_fields(GOLDEN) == GOLDEN_FIELDS


@pytest.mark.parametrize("tag", BackendTag)
def test_every_backend_tag_survives_a_round_trip(tag: BackendTag) -> None:
    fields = msgspec.structs.replace(GOLDEN_FIELDS, tag=tag)
    data = encode_handle(fields)
    assert data[2] == tag.value
    assert decode_fields(data) == fields


def test_the_widest_numbers_and_texts_survive_a_round_trip() -> None:
    fields = msgspec.structs.replace(
        GOLDEN_FIELDS,
        attempt_index=2**32 - 1,
        lease_epoch=2**64 - 1,
        lease_ttl_ms=2**64 - 1,
        lane_id="",
        worker_instance_id="wörker\x00\n",
    )
    assert decode_fields(encode_handle(fields)) == fields


def test_version_one_is_read_as_valkey() -> None:
    assert decode_fields(b"\x01" + GOLDEN[3:]) == msgspec.structs.replace(
        GOLDEN_FIELDS, tag=BackendTag.VALKEY
    )


def test_version_one_is_written_back_as_version_two() -> None:
    assert encode_handle(decode_fields(b"\x01" + GOLDEN[3:])) == b"\x02\x01\x01" + GOLDEN[3:]


@pytest.mark.parametrize("length", range(len(GOLDEN)))
def test_bytes_that_end_inside_a_field_are_truncated(length: int) -> None:
    assert corruption(GOLDEN[:length]).startswith("Truncated ")


@pytest.mark.parametrize(
    ("length", "needed", "at", "have"), [(0, 1, 0, 0), (5, 4, 3, 2), (168, 4, 165, 3)]
)
def test_the_error_of_a_truncated_handle_has_length_and_position(
    length: int, needed: int, at: int, have: int
) -> None:
    assert corruption(GOLDEN[:length]) == f"Truncated needed={needed} at={at} have={have}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (GOLDEN + b"\x00", "TrailingBytes pos=169 len=170"),
        (b"\x00" + GOLDEN[1:], "BadV1Version 0"),
        (b"\x03" + GOLDEN[1:], "BadV1Version 3"),
        (b"\xff", "BadV1Version 255"),
        (b"\x02\x00" + GOLDEN[2:], "BadWireVersion 0"),
        (b"\x02\x02" + GOLDEN[2:], "BadWireVersion 2"),
        (b"\x02\x01\x00" + GOLDEN[3:], "BadBackendTag 0"),
        (b"\x02\x01\x04" + GOLDEN[3:], "BadBackendTag 4"),
        (GOLDEN[:EXECUTION_ID] + text(b"\xff") + GOLDEN[50:], "InvalidUtf8 execution_id"),
        (GOLDEN[:ATTEMPT_ID] + text(b"\xff") + GOLDEN[LEASE_ID:], "InvalidUtf8 attempt_id"),
        (GOLDEN[:LEASE_ID] + text(b"\xc3\x28") + GOLDEN[134:], "InvalidUtf8 lease_id"),
        (GOLDEN[:LANE] + text(b"\xff") + GOLDEN[WORKER:], "InvalidUtf8 lane_id"),
        (GOLDEN[:WORKER] + text(b"\xff"), "InvalidUtf8 worker_instance_id"),
        (
            GOLDEN[:EXECUTION_ID] + text(b"no tag") + GOLDEN[50:],
            "ParseField execution_id: MissingTag",
        ),
        (
            GOLDEN[:EXECUTION_ID] + text(b"{fp:x}:y") + GOLDEN[50:],
            "ParseField execution_id: InvalidPartitionIndex",
        ),
        (
            GOLDEN[:EXECUTION_ID] + text(b"{fp:1}:y") + GOLDEN[50:],
            "ParseField execution_id: InvalidUuid",
        ),
        (GOLDEN[:ATTEMPT_ID] + text(b"y") + GOLDEN[LEASE_ID:], "ParseField attempt_id: not a uuid"),
        (GOLDEN[:LEASE_ID] + text(b"") + GOLDEN[134:], "ParseField lease_id: not a uuid"),
        (
            GOLDEN[:LEASE_ID] + text(b"0" * 30 + b"_0") + GOLDEN[134:],
            "ParseField lease_id: not a uuid",
        ),
        (
            GOLDEN[:ATTEMPT_ID] + text(b"0" * 30 + b"_0") + GOLDEN[LEASE_ID:],
            "ParseField attempt_id: not a uuid",
        ),
        (bytes(MAX_HANDLE_BYTES + 1), f"longer than {MAX_HANDLE_BYTES} bytes"),
    ],
)
def test_each_decode_failure_has_its_own_name(data: bytes, message: str) -> None:
    assert corruption(data) == message


def test_a_length_far_beyond_the_bytes_is_a_truncation() -> None:
    assert corruption(GOLDEN[:WORKER] + b"\xff\xff\xff\xff").startswith(
        "Truncated needed=4294967295"
    )


def test_a_handle_at_the_size_limit_is_read_and_one_byte_more_is_not() -> None:
    room = MAX_HANDLE_BYTES - (len(GOLDEN) - len("wi-1"))
    fits = msgspec.structs.replace(GOLDEN_FIELDS, worker_instance_id="w" * room)
    data = encode_handle(fits)
    assert len(data) == MAX_HANDLE_BYTES
    assert decode_fields(data) == fits
    assert corruption(
        encode_handle(msgspec.structs.replace(fits, worker_instance_id="w" * (room + 1)))
    ).startswith("longer")


def test_a_handle_of_this_backend_is_decoded() -> None:
    assert (
        decode_handle(Handle("Sqlite", HandleKind.FRESH, GOLDEN), BackendTag.SQLITE)
        == GOLDEN_FIELDS
    )


@pytest.mark.parametrize("kind", HandleKind)
def test_the_kind_is_never_looked_at(kind: HandleKind) -> None:
    assert decode_handle(Handle("Sqlite", kind, GOLDEN), BackendTag.SQLITE) == GOLDEN_FIELDS


@pytest.mark.parametrize(
    ("outer", "expected", "detail"),
    [
        ("Valkey", BackendTag.SQLITE, "expected=Sqlite actual=Valkey"),
        ("Postgres", BackendTag.SQLITE, "expected=Sqlite actual=Postgres"),
        ("Sqlite", BackendTag.VALKEY, "expected=Valkey actual=Sqlite"),
        ("sqlite", BackendTag.SQLITE, "expected=Sqlite actual=sqlite"),
        ("x" * 100, BackendTag.SQLITE, "expected=Sqlite actual=" + "x" * 40),
        ("Postgres", BackendTag.POSTGRES, "expected=Postgres actual=Sqlite (embedded tag)"),
        ("Valkey", BackendTag.VALKEY, "expected=Valkey actual=Sqlite (embedded tag)"),
    ],
)
def test_a_handle_of_another_backend_is_refused(
    outer: str, expected: BackendTag, detail: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        decode_handle(Handle(outer, HandleKind.FRESH, GOLDEN), expected)
    assert (raised.value.kind, raised.value.detail) == (
        ValidationKind.HANDLE_FROM_OTHER_BACKEND,
        detail,
    )


def test_a_backend_that_is_no_text_is_refused_like_any_other() -> None:
    with pytest.raises(ValidationError) as raised:
        decode_handle(Handle(None, HandleKind.FRESH, GOLDEN), BackendTag.SQLITE)  # type: ignore[arg-type]
    assert raised.value.code in ("handle_from_other_backend", "corruption")


@pytest.mark.parametrize(
    "given", [None, "handle", GOLDEN, Handle("Sqlite", HandleKind.FRESH, bytearray(GOLDEN))]
)  # type: ignore[arg-type]
def test_what_is_no_handle_is_refused(given: object) -> None:
    with pytest.raises(ValidationError) as raised:
        decode_handle(given, BackendTag.SQLITE)  # type: ignore[arg-type]
    assert raised.value.detail == "handle_codec: not a handle"


def test_a_handle_never_shows_its_bytes() -> None:
    shown = repr(Handle("Sqlite", HandleKind.FRESH, GOLDEN))
    assert shown == "Handle(Sqlite, Fresh, <169 bytes>)"
    assert str(GOLDEN_FIELDS.lease_id) not in shown
