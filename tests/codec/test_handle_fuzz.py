"""Arbitrary bytes are decoded or refused as a handle; no other error is raised."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from flowfabric.codec.handle import decode_fields, encode_handle
from flowfabric.errors import ValidationError, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import BackendTag, HandleFields

from .test_handle import GOLDEN

TEXTS = st.text(max_size=40)
HANDLES = st.builds(
    HandleFields,
    st.sampled_from(BackendTag),
    st.builds(ExecutionId.of, st.integers(0, 65_535), st.uuids()),
    st.integers(0, 2**32 - 1),
    st.uuids(),
    st.uuids(),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    TEXTS,
    TEXTS,
)


VALID = (
    GOLDEN,
    b"\x01" + GOLDEN[3:],
    encode_handle(
        HandleFields(
            BackendTag.VALKEY,
            ExecutionId.of(65_535, UUID(int=5)),
            0,
            UUID(int=6),
            UUID(int=7),
            1,
            1,
            "",
            "",
        )
    ),
    encode_handle(
        HandleFields(
            BackendTag.POSTGRES,
            ExecutionId.of(9, UUID(int=5)),
            3,
            UUID(int=6),
            UUID(int=7),
            2,
            9,
            "é",
            "ü" * 9,
        )
    ),
)


def damage(data: bytes, edits: bytes) -> bytes:
    """Every six bytes are an edit: where, how many bytes to take out, and up to four to put in."""
    for start in range(0, len(edits) - 1, 6):
        at, cut, *put = edits[start : start + 6]
        data = data[:at] + bytes(put[: cut % 5]) + data[at + cut % 7 :]
    return data


def read_or_refused(data: bytes) -> None:
    try:
        fields = decode_fields(data)
    except ValidationError as error:
        refused = (error.kind, error.detail.partition(" ")[0])
    else:
        refused = None
        assert decode_fields(encode_handle(fields)) == fields
    assert refused in (None, (ValidationKind.CORRUPTION, "handle_codec:"))


@settings(max_examples=1_000, deadline=None, derandomize=True, database=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_read_or_refused(data: bytes) -> None:
    """On their own, and after the start of a valid handle."""
    read_or_refused(data)
    read_or_refused(GOLDEN[: len(data)] + data)


@settings(max_examples=1_000, deadline=None, derandomize=True, database=None)
@given(st.binary(min_size=2, max_size=18))
def test_damaged_handles_are_read_or_refused(edits: bytes) -> None:
    for valid in VALID:
        read_or_refused(damage(valid, edits))


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(HANDLES)
def test_every_handle_survives_a_round_trip(fields: HandleFields) -> None:
    assert decode_fields(encode_handle(fields)) == fields
