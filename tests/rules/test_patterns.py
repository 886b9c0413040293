"""Patterns of schemas: the same answers as `re`, in a bounded number of steps."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowfabric.rules.waits import pattern
from flowfabric.rules.waits.payload_schema import MAX_MATCH_STEPS, mismatch
from flowfabric.rules.waits.schema_form import flaw

PATTERNS = (
    *(
        "",
        "^$",
        "a",
        "[^a]b",
        r"a\Z",
        "^[a-z]+$",
        "a|b|cd",
        "[^a-c]x?",
        "a*?b",
        "(?:ab)?c{0,2}",
        "^a.c$",
        " .b",
    ),
    *(r"(a+)+$", r"(a|aa)*b", r"(a*)*c", r"^(foo|bar){2,3}$", r"(a?){3}b", r"(|a)+b"),
    *(r"\bab\b", r"\Bb", r"^\d{3}-\d{2}$", r"\w+@\w+\.com\Z", r"[\w-]+\S", r"\Aa\D", r"[a-]b"),
    *(r"[^\s@]+@", r"\W\w", r"[\d_]{2}", r"x{2,}", r"(?P<name>a)b"),
)
TEXTS = st.text(alphabet="abcdxfo1-@._ \n\u00e4\u0663", max_size=12)
CATASTROPHIC = ("(a+)+$", "^(a|a)*$", "(a|aa)+$", "(a*)*b", "(.*a){12}$", "(a?){25}a{25}c")


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(PATTERNS), TEXTS)
def test_a_search_finds_what_re_finds(text: str, value: str) -> None:
    found, left = pattern.search(pattern.compiled(text), value, MAX_MATCH_STEPS)
    assert found is (re.search(text, value) is not None)
    assert 0 <= left < MAX_MATCH_STEPS


@pytest.mark.parametrize("text", CATASTROPHIC)
def test_a_pattern_that_would_take_for_ever_ends(text: str) -> None:
    found, left = pattern.search(pattern.compiled(text), "a" * 60 + "!", MAX_MATCH_STEPS)
    assert found is False
    assert left > 0


@pytest.mark.parametrize("text", CATASTROPHIC)
def test_a_payload_is_refused_when_its_patterns_take_too_many_steps(text: str) -> None:
    schema = json.dumps({"type": "array", "items": {"type": "string", "pattern": text}})
    said = mismatch(schema, json.dumps(["a" * 400_000 + "!"]).encode())
    assert said is not None
    assert said.startswith("payload[0]: too long to be checked by the pattern")
    many = mismatch(
        json.dumps({"items": {"anyOf": [{"pattern": text}, {"type": "string"}]}}),
        json.dumps(["a" * 1_000 + "!"] * 500).encode(),
    )
    assert many is None, "another form is accepted"


@pytest.mark.parametrize(
    "text",
    [
        *("(", "a**", r"(a)\1", "(?=a)", "(?!a)", "(?<=a)b", "(?i)a", "(?s).", "(?i:a)", "(?>a)b"),
        *("a{5000}", "(a{99}){99}", "(){9999}" * 9, "((){60000}){60000}"),
        *("a" * 1_001, "a++", "(a)?(?(1)b|c)"),
    ],
    ids=range(17),
)
def test_a_pattern_that_cannot_be_searched_so_is_refused_when_it_is_declared(text: str) -> None:
    assert "pattern: a regular expression" in str(flaw({"pattern": text}))


def test_a_stored_pattern_that_is_not_supported_refuses_the_text() -> None:
    assert mismatch('{"pattern": "(?=a)a"}', b'"a"') == (
        "payload: the pattern '(?=a)a' cannot be applied"
    )
