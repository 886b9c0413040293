"""Every recorded sample of the original's codecs gives the same answer here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from flowfabric.codec.event_cursor import decode_cursor, encode_cursor
from flowfabric.codec.frame_id import END, START, upper_bound
from flowfabric.codec.handle import decode_fields, encode_handle
from flowfabric.codec.token import mint
from flowfabric.errors import ValidationError
from flowfabric.ids import (
    ExecutionId,
    ExecutionIdError,
    fnv1a_u16_mod,
    fnv1a_u64,
    fnv1a_xor8hex,
    lane_id,
    parse_uuid,
    partition_of,
)
from flowfabric.model.signing_key import HmacKey

SAMPLES: dict[str, list[dict[str, Any]]] = {}
for _line in (Path(__file__).parent / "vectors" / "codec.jsonl").read_text().splitlines():
    SAMPLES.setdefault((_sample := json.loads(_line))["k"], []).append(_sample)


def test_the_corpus_is_whole() -> None:
    assert {kind: len(samples) for kind, samples in SAMPLES.items()} == dict.fromkeys(
        [
            "cursor",
            "eid_parse",
            "event_cursor",
            "fnv",
            "handle",
            "handle_bad",
            "ids",
            "lane",
            "token",
            "uuid_parse",
        ],
        200,
    )


def test_hashes() -> None:
    for one in SAMPLES["fnv"]:
        found = (
            str(fnv1a_u64(one["s"].encode())),
            fnv1a_u16_mod(one["s"], one["m"]),
            fnv1a_xor8hex(one["s"]),
        )
        assert found == (one["u64"], one["mod"], one["x8"]), one


def test_ids_and_partitions() -> None:
    for one in SAMPLES["ids"]:
        ident, flow = UUID(one["uuid"]), UUID(one["flow"])
        assert ExecutionId.solo(one["lane"], ident, one["nf"]) == one["solo"]
        assert ExecutionId.for_flow(flow, ident, one["nf"]) == one["for_flow"]
        assert (partition_of(ident, one["nb"]), partition_of(ident, one["nq"])) == (
            one["budget"],
            one["quota"],
        )


def test_execution_ids_are_parsed_alike() -> None:
    """The original keeps the spelling of a uuid; here it is written with hyphens and in
    lower case.
    """
    for one in SAMPLES["eid_parse"]:
        try:
            found: dict[str, Any] = {"p": ExecutionId(one["s"]).partition_index}
        except ExecutionIdError as error:
            found = {"err": error.reason}
        assert found.items() <= one["want"].items(), one


def test_uuids_are_parsed_alike() -> None:
    for one in SAMPLES["uuid_parse"]:
        try:
            found: str | None = str(parse_uuid(one["s"]))
        except ValueError:
            found = None
        assert found == one["want"], one


def test_lanes_are_parsed_alike() -> None:
    for one in SAMPLES["lane"]:
        try:
            good = bool(lane_id(one["s"]))
        except ValidationError:
            good = False
        assert good is one["want"], one


def test_stream_cursors_are_parsed_alike() -> None:
    for one in SAMPLES["cursor"]:
        try:
            upper_bound(one["s"])
        except ValidationError:
            assert one["want"] is None, one
        else:
            assert one["want"] == one["s"] or one["s"] in (START, END), one


def test_event_cursors() -> None:
    for one in SAMPLES["event_cursor"]:
        assert encode_cursor(one["n"]).hex() == one["hex"]
        assert decode_cursor(bytes.fromhex(one["hex"]), "test") == one["n"]


def test_tokens() -> None:
    for one in SAMPLES["token"]:
        key = HmacKey(one["kid"], 0, 1, None, bytes.fromhex(one["secret"]))
        assert mint(key, ExecutionId(one["eid"]), UUID(one["wp"])) == one["token"]


def fields_of(data: bytes) -> dict[str, str]:
    return {name: str(value) for name, value in msgspec.structs.asdict(decode_fields(data)).items()}


def fields_wanted(want: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in want.items() if name != "ok"}


def test_handles_both_ways() -> None:
    for one in SAMPLES["handle"]:
        data = bytes.fromhex(one["hex"])
        assert fields_of(data) == fields_wanted(one["want"]), one
        assert encode_handle(decode_fields(data)) == data


def test_damaged_handles() -> None:
    """What is left of some can still be read, and is read alike. Others are refused for the same
    reason.
    """
    for one in SAMPLES["handle_bad"]:
        data, reason = bytes.fromhex(one["hex"]), one["want"].get("err")
        if reason is None:
            assert fields_of(data) == fields_wanted(one["want"]), one
        else:
            with pytest.raises(ValidationError) as refused:
                decode_fields(data)
            words = re.match(r'(\w+)(?: \{ field: "(\w+)")?', reason)
            assert words is not None
            assert " ".join(word for word in words.groups() if word) in str(refused.value), one
