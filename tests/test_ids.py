from __future__ import annotations

import pickle
import time
from uuid import UUID

import pytest

from flowfabric import ids
from flowfabric.errors import ValidationError, ValidationKind
from flowfabric.ids import ExecutionId, ExecutionIdError

U0, U1 = UUID(int=0), UUID(int=1)
ONES = UUID("11111111-1111-1111-1111-111111111111")
URL = UUID("550e8400-e29b-41d4-a716-446655440000")


@pytest.mark.parametrize(
    ("data", "crc", "of_256"),
    [
        (b"123456789", 0x31C3, 195),
        (b"default", 54_870, 86),
        (b"a", 31_879, 135),
        (b"lane-1", 15_021, 173),
        (b"", 0, 0),
    ],
)
def test_crc16_is_xmodem(data: bytes, crc: int, of_256: int) -> None:
    assert ids.crc16(data) == crc
    assert crc % 256 == of_256


@pytest.mark.parametrize(
    ("ident", "crc", "of_256", "of_32"),
    [(U0, 0, 0, 0), (U1, 0x1021, 33, 1), (ONES, 0x5006, 6, 6), (URL, 0x9018, 24, 24)],
)
def test_a_uuid_is_partitioned_by_its_raw_bytes(
    ident: UUID, crc: int, of_256: int, of_32: int
) -> None:
    assert ids.crc16(ident.bytes) == crc
    assert ids.partition_of(ident, 256) == of_256
    assert ids.partition_of(ident, 32) == of_32


@pytest.mark.parametrize(
    ("text", "full", "folded", "of_256"),
    [
        ("", 0xCBF29CE484222325, "4fd0bfc1", 0x25),
        ("a", 0xAF63DC4C8601EC8C, "296230c0", 140),
        ("foobar", 0x85944171F73967E8, "72ad2699", 0xE8),
        ("worker-1", 0x24913EC59027EBED, "b4b6d528", 237),
    ],
)
def test_fnv1a_vectors(text: str, full: int, folded: str, of_256: int) -> None:
    assert ids.fnv1a_u64(text.encode()) == full
    assert ids.fnv1a_xor8hex(text) == folded
    assert ids.fnv1a_u16_mod(text, 256) == of_256
    assert ids.fnv1a_u16_mod(text, 1_000) == (full & 0xFFFF) % 1_000


def test_a_modulus_of_zero_gives_zero() -> None:
    assert ids.fnv1a_u16_mod("worker-1", 0) == 0


@pytest.mark.parametrize(("lane", "partition"), [("default", 86), ("a", 135), ("lane-1", 173)])
def test_a_solo_id_lives_in_its_lanes_partition(lane: str, partition: int) -> None:
    made = ExecutionId.solo(lane, ONES)
    assert made == f"{{fp:{partition}}}:{ONES}"
    assert (made.partition_index, made.uuid) == (partition, ONES)
    assert ExecutionId.solo(lane, partitions=4).partition_index == partition % 4


def test_a_member_lives_in_its_flows_partition() -> None:
    assert ExecutionId.for_flow(URL, ONES) == f"{{fp:24}}:{ONES}"
    assert ExecutionId.for_flow(URL, partitions=5).partition_index == 0x9018 % 5


def test_minted_ids_differ() -> None:
    assert (
        len(
            {ExecutionId.solo("default") for _ in range(100)}
            | {ExecutionId.for_flow(URL) for _ in range(100)}
        )
        == 200
    )


@pytest.mark.parametrize("text", [f"{{fp:0}}:{ONES}", f"{{fp:255}}:{URL}", f"{{fp:65535}}:{U0}"])
def test_an_execution_id_parses_to_itself_whatever_the_partition_count(text: str) -> None:
    parsed = ExecutionId(text)
    assert parsed == text
    assert f"{{fp:{parsed.partition_index}}}:{parsed.uuid}" == text


def test_any_textual_form_of_the_uuid_is_normalised() -> None:
    assert ExecutionId("{fp:1}:" + URL.hex.upper()) == f"{{fp:1}}:{URL}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "MissingTag"),
        (str(ONES), "MissingTag"),
        (f"fp:1:{ONES}", "MissingTag"),
        (f"{{fp:1}}{ONES}", "MissingTag"),
        (f"{{fp:1:{ONES}", "MissingTag"),
        (f"{{b:1}}:{ONES}", "MissingTag"),
        (f" {{fp:1}}:{ONES}", "MissingTag"),
        (f"{{fp:}}:{ONES}", "InvalidPartitionIndex"),
        (f"{{fp:abc}}:{ONES}", "InvalidPartitionIndex"),
        (f"{{fp:65536}}:{ONES}", "InvalidPartitionIndex"),
        (f"{{fp:-1}}:{ONES}", "InvalidPartitionIndex"),
        (f"{{fp: 1}}:{ONES}", "InvalidPartitionIndex"),
        (f"{{fp:1\n}}:{ONES}", "InvalidPartitionIndex"),
        (f"{{fp:\u0661}}:{ONES}", "InvalidPartitionIndex"),
        (f"{{fp:{'9' * 5000}}}:{ONES}", "InvalidPartitionIndex"),
        ("{fp:1}:", "InvalidUuid"),
        ("{fp:1}:not-a-uuid", "InvalidUuid"),
        (f"{{fp:1}}:{ONES}0", "InvalidUuid"),
        (f"{{fp:1}}:{ONES}\n", "InvalidUuid"),
    ],
)
def test_each_parse_failure_has_its_name(text: str, reason: str) -> None:
    with pytest.raises(ExecutionIdError) as raised:
        ExecutionId(text)
    assert raised.value.reason == reason
    assert len(str(raised.value)) < 250
    with pytest.raises(ValidationError, match=rf"invalid_input: cursor: {reason}"):
        ids.execution_id(text, "cursor")


@pytest.mark.parametrize("value", [None, 7, b"{fp:1}:x", ONES])
def test_an_execution_id_that_is_no_text_is_invalid_input(value: object) -> None:
    with pytest.raises(ValidationError, match="invalid_input: execution_id: "):
        ids.execution_id(value)


def test_a_checked_id_is_taken_as_it_is() -> None:
    made = ExecutionId.of(3, ONES)
    assert ids.execution_id(made) is made
    assert ExecutionId(made) is made
    assert ids.execution_id(str(made)) == made


def test_an_execution_id_survives_pickling_and_sorts_by_text() -> None:
    made = ExecutionId.of(9, ONES)
    again = pickle.loads(pickle.dumps(made))
    assert (type(again), again, again.partition_index, again.uuid) == (ExecutionId, made, 9, ONES)
    assert sorted([ExecutionId.of(9, U0), ExecutionId.of(10, U0)]) == [
        ExecutionId.of(10, U0),
        ExecutionId.of(9, U0),
    ]


@pytest.mark.parametrize("lane", ["default", " ", "~", "a" * 64, "with space, comma"])
def test_a_lane_is_one_to_64_printable_ascii_bytes(lane: str) -> None:
    assert ids.lane_id(lane) == lane


class Named(str):
    """A caller's own kind of text."""


def test_a_subclass_of_text_may_name_a_lane() -> None:
    assert ids.lane_id(Named("default")) == "default"


@pytest.mark.parametrize(
    ("lane", "failure"),
    [
        ("", "Empty"),
        (None, "Empty"),
        (5, "Empty"),
        (b"default", "Empty"),
        ("a" * 65, r"TooLong\(65\)"),
        ("é" * 33, r"TooLong\(66\)"),
        ("ab\x1fc", r"NonPrintable\(2\)"),
        ("\x7f", r"NonPrintable\(0\)"),
        ("aé", r"NonPrintable\(1\)"),
        ("a\n", r"NonPrintable\(1\)"),
        ("a\ud800", "."),
    ],
)
def test_the_error_of_a_bad_lane_has_its_reason(lane: object, failure: str) -> None:
    with pytest.raises(ValidationError, match=f"invalid_input: lane_id: .*{failure}"):
        ids.lane_id(lane)


@pytest.mark.parametrize("value", ["a", "a" * 64, "a" * 256, "é" * 128, "with space"])
def test_a_name_is_up_to_256_bytes(value: str) -> None:
    assert ids.name(value, "worker_id") == value


@pytest.mark.parametrize("value", ["", None, 5, "a" * 257, "é" * 129, "a\ud800", "\udfff"])
def test_a_bad_name_is_invalid_input_that_names_the_field(value: object) -> None:
    with pytest.raises(ValidationError, match=r"invalid_input: worker_id: .*text"):
        ids.name(value, "worker_id")


def test_a_name_may_be_empty_only_if_allowed() -> None:
    assert ids.name("", "creator_identity", empty=True) == ""


@pytest.mark.parametrize(
    "key", ["cairn.session_id", "a.b", "a1_2.x", "app.sub.field", "x.y_z", "a._", "a.0"]
)
def test_valid_tag_keys(key: str) -> None:
    assert ids.tag_key(key) == key
    assert ids.tag_key_is_valid(key)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "Cairn.x",
        "1cairn.x",
        "cairn",
        "cairn.",
        "cairn..x",
        ".cairn",
        "cair n.x",
        "ca-irn.x",
        "cairn.Foo",
        "cairn.foo bar",
        "cairn.foo-bar",
        'cairn."x',
        "cairn.'x",
        "cairn.\\x",
        "cairn.x\x00",
        "cairn.x\n",
        "_a.b",
        "é.b",
        None,
        3,
    ],
)
def test_invalid_tag_keys(key: object) -> None:
    assert not ids.tag_key_is_valid(key)
    with pytest.raises(ValidationError) as raised:
        ids.tag_key(key)
    assert raised.value.kind is ValidationKind.INVALID_INPUT
    if key is not None:
        assert repr(key) in raised.value.detail


@pytest.mark.parametrize(
    ("value", "index"),
    [("{fp:7}", 7), ("{fp:0}", 0), ("{fp:65535}", 65_535), (0, 0), (65_535, 65_535)],
)
def test_a_partition_is_named_by_its_tag_or_its_number(value: object, index: int) -> None:
    assert ids.partition_key(value) == index
    assert ids.partition_key(ids.partition_tag(index)) == index


@pytest.mark.parametrize(
    "value",
    [
        "",
        "fp:7",
        "{fp7}",
        "{xx:7}",
        "{b:0}",
        "{q:31}",
        "{fp:}",
        "{fp:x}",
        "{fp:-1}",
        "{fp:65536}",
        "{fp:7}x",
        "{fp:7}\n",
        -1,
        65_536,
        True,
        1.0,
        None,
        b"{fp:7}",
    ],
)
def test_any_other_partition_is_invalid_input(value: object) -> None:
    with pytest.raises(ValidationError, match=r"invalid_input: partition_key: ") as raised:
        ids.partition_key(value)
    assert raised.value.kind is ValidationKind.INVALID_INPUT


def test_time_ordered_uuids_are_version_7_and_sort_by_their_millisecond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    for ms in (1, 2, 1_800_000_000_000, 1_800_000_000_001):
        monkeypatch.setattr(time, "time_ns", lambda ms=ms: ms * 1_000_000 + 999_999)
        made.append(ids.time_ordered_uuid())
        assert made[-1].int >> 80 == ms
    assert made == sorted(made)
    assert {(u.version, u.variant) for u in made} == {(7, "specified in RFC 4122")}


def test_uuids_of_one_millisecond_sort_by_when_they_were_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    for ns in range(0, 1_000_000, 1_000):
        monkeypatch.setattr(time, "time_ns", lambda ns=ns: 1_800_000_000_000_000_000 + ns)
        made.append(ids.time_ordered_uuid())
    assert made == sorted(made)
    assert {(u.int >> 80, u.version, u.variant) for u in made} == {
        (1_800_000_000_000, 7, "specified in RFC 4122")
    }


def test_uuids_of_one_instant_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_800_000_000_000_000_000)
    assert len({ids.time_ordered_uuid() for _ in range(1_000)}) == 1_000


def test_leases_and_attempts_get_random_uuids() -> None:
    made = [ids.new_lease_id(), ids.new_lease_id(), ids.new_attempt_id(), ids.new_attempt_id()]
    assert len(set(made)) == 4
    assert {u.version for u in made} == {4}
