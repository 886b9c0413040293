"""The Lua of the store: arithmetic beyond a Lua number, and the text of each form."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.library import lua_text
from flowfabric.store.valkey.lua_forms import form_lua
from flowfabric.store.valkey.lua_schema import schema_lua
from flowfabric.testing import ManualClock
from tests import valkey
from tests.store.sqlite import forms

GOLDEN = Path(__file__).parent.parent / "golden" / "valkey"
UPDATE = os.environ.get("FF_UPDATE_GOLDEN") == "1"


@pytest.mark.parametrize("name", sorted(forms.ALL))
def test_each_form_has_a_golden_text(name: str) -> None:
    path, text = GOLDEN / f"{name}.lua", form_lua(forms.ALL[name])
    if UPDATE:
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text


def test_the_schema_has_a_golden_text() -> None:
    path = GOLDEN / "_schema.lua"
    if UPDATE:
        path.write_text(schema_lua())
    assert path.read_text() == schema_lua()


def test_no_golden_text_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.lua")} == {*forms.ALL, "_schema"}


async def test_sums_are_exact_for_every_stored_number() -> None:
    library = lua_text("state", "values").replace(
        "local call, floor, byte, char, sub",
        "local call, floor, byte, char, sub = redis.call, math.floor, string.byte, string.char, "
        "string.sub --",
    )
    script = f"{library}\nreturn {{ plus(ARGV[1], ARGV[2]), minus(ARGV[1], ARGV[2]), "
    script += "less(ARGV[1], ARGV[2]) and '1' or '0' }"
    draw = random.Random(1)
    edges = [0, 1, -1, 2**31, 2**32, 10**15, 2**53, 2**53 + 1, 2**62, -(2**62), -(2**53) - 1]
    numbers = [*edges, *(draw.randrange(-(2**62), 2**62) for _ in range(20))]
    connection = await Connection.open(valkey.new_store(ManualClock()).options)
    for a in numbers:
        for b in (draw.choice(numbers) for _ in range(10)):
            answer = await connection.command("EVAL", script, "0", str(a), str(b))
            assert [int(each) for each in answer] == [a + b, a - b, int(a < b)], (a, b)
    await connection.close()
