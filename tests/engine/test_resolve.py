"""Executions are found by their id, their uuid, or the first digits of it."""

from __future__ import annotations

from uuid import UUID

import pytest

from flowfabric import CreateExecutionArgs, Engine, ExecutionId
from flowfabric.errors import NotFound, ValidationError, ValidationKind
from flowfabric.ids import FLOW_PARTITIONS

LOW, HIGH = UUID(int=0), UUID(int=2**128 - 1)
NEAR = [UUID(f"0a1b2c3d-4e5f-4000-8000-{n:012x}") for n in range(7)]


async def created(engine: Engine, partition: int, ident: UUID, namespace: str = "default") -> str:
    made = ExecutionId.of(partition, ident)
    await engine.create_execution(CreateExecutionArgs(execution_id=made, namespace=namespace))
    return str(made)


async def test_every_form_of_an_id_finds_it_in_every_partition(engine: Engine) -> None:
    ident = UUID("0a1b2c3d-4e5f-4000-8000-123456789abc")
    for partition in (0, 63, 64, FLOW_PARTITIONS - 1):
        other = UUID(int=ident.int + (partition + 1 << 96))
        made = await created(engine, partition, other)
        for text in (made, str(other), other.hex, str(other)[:8], str(other)[:11], other.hex[:31]):
            assert str(await engine.resolve_execution(text)) == made
        assert str(await engine.resolve_execution(str(other).upper())) == made


async def test_the_ends_of_the_range_are_found(engine: Engine) -> None:
    low, high = await created(engine, 3, LOW), await created(engine, 4, HIGH)
    assert str(await engine.resolve_execution("00000000")) == low
    assert str(await engine.resolve_execution("ffffffff-")) == high


async def test_an_ambiguous_prefix_lists_candidates(engine: Engine) -> None:
    for at, ident in enumerate(NEAR):
        await created(engine, at * 30, ident)
    with pytest.raises(ValidationError) as refused:
        await engine.resolve_execution("0a1b2c3d")
    assert refused.value.kind is ValidationKind.AMBIGUOUS_ID
    assert [str(ident) in str(refused.value) for ident in NEAR] == [True] * 5 + [False] * 2
    assert "and more; give more digits" in str(refused.value)
    assert (await engine.resolve_execution(str(NEAR[6]))).uuid == NEAR[6]


async def test_an_unknown_id_is_not_found(engine: Engine) -> None:
    await created(engine, 5, NEAR[0])
    for text in (str(NEAR[1]), "0a1b2c3e", str(ExecutionId.of(6, NEAR[0]))):
        with pytest.raises(NotFound):
            await engine.resolve_execution(text)


async def test_an_execution_of_another_namespace_is_not_found(engine: Engine) -> None:
    mine = await created(engine, 5, NEAR[0], "mine")
    await created(engine, 6, NEAR[1], "theirs")
    assert str(await engine.resolve_execution("0a1b2c3d", "mine")) == mine
    for text in (mine, str(NEAR[0]), "0a1b2c3d"):
        with pytest.raises(NotFound):
            await engine.resolve_execution(text, "others")


@pytest.mark.parametrize(
    "text",
    ["", "0a1b2c3", "0a1b2c3g", "0a1b-2c3d", "0a1b2c3d--", "0a1b2c3d" * 5, "{fp:1}:x", "run 7"],
)
async def test_other_texts_are_refused(engine: Engine, text: str) -> None:
    with pytest.raises(ValidationError) as refused:
        await engine.resolve_execution(text)
    assert refused.value.kind is ValidationKind.INVALID_INPUT
    assert "first 8 or more hexadecimal digits" in str(refused.value)
