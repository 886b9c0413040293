from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.errors import ValidationError, ValidationKind
from flowfabric.model.stream import (
    MAX_DOCUMENT_DEPTH,
    MAX_FRAME_BYTES,
    MAX_PATCH_DEPTH,
    MAX_SUMMARY_BYTES,
)
from flowfabric.rules.streams.merge_patch import (
    MAX_PARSED_DEPTH,
    check_document_size,
    document_bytes,
    merge,
    parse_document,
    parse_patch,
)

NULL = "__ff_null__"
NOT_OBJECT = "patch must be a JSON object"
TOO_DEEP = "patch_depth_exceeded"


def refusal(call: Any, raw: bytes) -> ValidationError:
    with pytest.raises(ValidationError) as raised:
        call(raw)
    return raised.value


def refused_patch(raw: bytes) -> str:
    error = refusal(parse_patch, raw)
    assert error.kind is ValidationKind.INVALID_INPUT
    return error.detail


def objects(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


def arrays(depth: int) -> bytes:
    """An object of `depth`, all of it arrays but the root."""
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


# ---- what is a patch


@pytest.mark.parametrize(
    ("raw", "patch"),
    [
        (b"{}", {}),
        (b' \n{"a": [1, {"b": null}]}\t', {"a": [1, {"b": None}]}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "😀"}),
        (b'{"a":"\\u0000"}', {"a": "\0"}),
        ('{"é":"ü"}'.encode(), {"é": "ü"}),
        (b'{"a":12345678901234567890123}', {"a": 12345678901234567890123}),
        (b'{"a":"[[[[[[[[[[[[[[[[[[[[[[[[{{{{"}', {"a": "[" * 24 + "{{{{"}),
        (b'{"a":"\\"[[[[[[[[[[[[[[[[[[[[","\\\\":"[[[["}', {"a": '"' + "[" * 20, "\\": "[[[["}),
    ],
)
def test_a_patch_is_a_json_object(raw: bytes, patch: dict[str, Any]) -> None:
    assert parse_patch(raw) == patch


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"{",
        b"{'a':1}",
        b'{"a":1,}',
        b'{"a":1} x',
        b"{}{}",
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":1e400}',
        b'{"a":01}',
        b'{"a":"\\ud800"}',
        b'{"a":"\\ud800x12345678"}',
        b'{"\\udc00":1}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":"\xff"}',
        b'{"a":"\x00"}',
        b"\xef\xbb\xbf{}",
        b'{"a":' + b"9" * 5_000 + b"}",
        b"NaN",
        b"[" * 20,
        b"{}" + b"]" * 20 + b"[" * 30,
    ],
)
def test_other_text_is_not_json(raw: bytes) -> None:
    assert refused_patch(raw).startswith("summary patch not valid JSON: ")
    assert len(refused_patch(raw)) < 200


@pytest.mark.parametrize(
    "raw", [b"[]", b'[{"a":1}]', b"null", b"true", b"7", b'"text"', b"[" * 20 + b"]" * 20]
)
def test_other_json_is_not_a_patch(raw: bytes) -> None:
    assert refused_patch(raw) == NOT_OBJECT


@pytest.mark.parametrize("nested", [objects, arrays])
def test_nesting_counts_objects_and_arrays_with_the_root_as_one(nested: Any) -> None:
    assert parse_patch(nested(MAX_PATCH_DEPTH))
    assert refused_patch(nested(MAX_PATCH_DEPTH + 1)) == TOO_DEEP
    assert refused_patch(nested(MAX_PARSED_DEPTH + 1)) == TOO_DEEP


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert len(parse_patch(document_bytes({f"k{n}": [{}, []] for n in range(1_000)}))) == 1_000


@pytest.mark.parametrize(
    ("raw", "detail"),
    [
        (b"[" * MAX_FRAME_BYTES, NOT_OBJECT),
        (b" \n[" * (MAX_FRAME_BYTES // 3), NOT_OBJECT),
        (b'{"a":' * (MAX_FRAME_BYTES // 5), TOO_DEEP),
        (b' {"a":' + b"[" * 32_000 + b"]" * 32_000 + b"}", TOO_DEEP),
        (b'{"":' * 10_000 + b"0" + b"}" * 10_000, TOO_DEEP),
    ],
)
def test_a_tower_of_brackets_is_refused_without_being_climbed(raw: bytes, detail: str) -> None:
    assert refused_patch(raw) == detail


@given(st.one_of(st.binary(max_size=80), st.text('{}[]":,\\a1 ', max_size=200).map(str.encode)))
def test_any_bytes_are_a_patch_or_a_refusal(raw: bytes) -> None:
    try:
        patch = parse_patch(raw)
    except ValidationError:
        return
    assert patch == json.loads(raw)


# ---- merging


def literal(target: Any, patch: Any) -> Any:
    """The pseudo-code of RFC 7396, section 2."""
    if isinstance(patch, dict):
        if not isinstance(target, dict):
            target = {}
        for name, value in patch.items():
            if value is None:
                if name in target:
                    del target[name]
            else:
                target[name] = literal(target.get(name), value)
        return target
    return patch


def without_sentinel(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_sentinel(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_sentinel(inner) for inner in value]
    return None if value == NULL else value


APPENDIX_A: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "result"), APPENDIX_A)
def test_the_examples_of_the_rfc(target: Any, patch: Any, result: Any) -> None:
    """The examples of the RFC, one level down, as the member `m` of an object.

    A document is always an object here, so a patch that is not one is refused, and null deletes.
    """
    if isinstance(target, dict) and isinstance(patch, dict):
        assert merge(target, patch) == result
    else:
        assert merge({"m": target}, {"m": patch}) == ({} if result is None else {"m": result})
    if not isinstance(patch, dict):
        assert refused_patch(json.dumps(patch).encode()) == NOT_OBJECT


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({}, {}, {}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": 1}}),
        ({"a": 1}, {"a": {}}, {"a": {}}),
        ({"a": [1]}, {"a": {}}, {"a": {}}),
        ({}, {"a": {}}, {"a": {}}),
        ({"a": {"b": 1}}, {"a": []}, {"a": []}),
        ({}, {"a": None}, {}),
        ({"a": {"b": {"c": 1, "d": 2}}}, {"a": {"b": {"c": None}}}, {"a": {"b": {"d": 2}}}),
        ({}, {"a": [None, {"b": None}]}, {"a": [None, {"b": None}]}),
        ({}, {"a": NULL}, {"a": None}),
        ({"a": None}, {"a": None}, {}),
        ({"a": {"x": 1}}, {"a": {"b": {"c": NULL}}}, {"a": {"x": 1, "b": {"c": None}}}),
        ({}, {"a": [NULL, [NULL, {"b": NULL}], "x"]}, {"a": [None, [None, {"b": None}], "x"]}),
        ({"old": [NULL]}, {"a": 1}, {"old": [None], "a": 1}),
        ({}, {NULL: 1}, {NULL: 1}),
        ({}, {"a": NULL + " ", "b": NULL.upper()}, {"a": NULL + " ", "b": NULL.upper()}),
    ],
)
def test_nulls_empty_objects_and_the_sentinel(target: Any, patch: Any, result: Any) -> None:
    assert merge(target, patch) == result


KEYS = st.sampled_from(["a", "b", "c", "é", "", NULL])
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from(["", "x", NULL, "\0", "😀", "\u2028"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


@given(OBJECTS, OBJECTS)
def test_merging_is_the_rfc_and_then_the_sentinel(
    document: dict[str, Any], patch: dict[str, Any]
) -> None:
    before = copy.deepcopy((document, patch))
    merged = merge(document, patch)
    assert merged == without_sentinel(literal(copy.deepcopy(document), copy.deepcopy(patch)))
    assert (document, patch) == before
    assert merge(merged, patch) == merged
    assert merge(merged, {}) == merged


@given(OBJECTS, OBJECTS)
def test_a_merged_document_shares_nothing_with_what_it_came_from(
    document: dict[str, Any], patch: dict[str, Any]
) -> None:
    before = copy.deepcopy((document, patch))
    _spoil(merge(document, patch))
    assert (document, patch) == before


def _spoil(value: Any) -> None:
    for inner in list(value.values()) if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            _spoil(inner)
    value.clear()


# ---- the document as stored


def test_a_document_is_compact_sorted_and_readable() -> None:
    document = {"b": [1, 1.5, None, True], "a": {"z": "é😀", "y": '\0\n"\\'}, "é": {}, "Z": []}
    text = '{"Z":[],"a":{"y":"\\u0000\\n\\"\\\\","z":"é😀"},"b":[1,1.5,null,true],"é":{}}'
    assert document_bytes(document) == text.encode()


@given(OBJECTS)
def test_a_document_reads_back_as_itself_in_one_spelling(document: dict[str, Any]) -> None:
    raw = document_bytes(document)
    assert parse_document(raw) == json.loads(raw) == document
    assert document_bytes(parse_document(raw)) == raw
    assert document_bytes(dict(reversed(document.items()))) == raw


def test_patches_can_not_make_a_document_that_is_too_deep_to_read() -> None:
    document = merge(parse_patch(objects(MAX_PATCH_DEPTH)), parse_patch(arrays(MAX_PATCH_DEPTH)))
    assert parse_document(document_bytes(document)) == document


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b"\xff", "malformed"),
        (b'{"a":"\xff"}', "utf-8"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (objects(MAX_DOCUMENT_DEPTH + 1), "nested more than 32 deep"),
        (b"[" * 1_000_000, "nested more than 32 deep"),
    ],
)
def test_a_stored_document_that_is_none_is_corrupt(raw: bytes, words: str) -> None:
    error = refusal(parse_document, raw)
    assert error.kind is ValidationKind.CORRUPTION
    assert error.detail.startswith("corrupt summary document in ff_stream_summary: ")
    assert words in error.detail


def test_a_document_somewhat_deeper_than_a_patch_is_read() -> None:
    assert parse_document(objects(MAX_DOCUMENT_DEPTH))


def test_a_document_has_a_largest_size() -> None:
    check_document_size(bytes(MAX_SUMMARY_BYTES))
    error = refusal(check_document_size, bytes(MAX_SUMMARY_BYTES + 1))
    assert error.kind is ValidationKind.RETENTION_LIMIT_EXCEEDED
    assert error.detail == "summary document: at most 1048576 bytes, got 1048577"
