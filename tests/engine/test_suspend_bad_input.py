"""Arguments of the wrong kind are refused by name, whatever they are."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from flowfabric import Engine
from flowfabric.errors import ValidationError
from flowfabric.model.waitpoint import AllOf, Count, CountKind, FreshWaitpoint, Single, SuspendArgs
from tests.engine.helpers import running

WRONG = [
    {"waitpoints": None},
    {"waitpoints": [5]},
    {"resume_condition": AllOf(None)},  # type: ignore[arg-type]
    {"resume_condition": Count(1, CountKind.DISTINCT_SIGNALS, None)},  # type: ignore[arg-type]
    {"resume_condition": "x"},
    {"timeout_behavior": "sulk"},
]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
async def test_a_suspend_of_the_wrong_kind(engine: Engine, wrong: dict[str, Any]) -> None:
    _, handle = await running(engine)
    right = {
        "suspension_id": uuid4(),
        "waitpoints": [FreshWaitpoint(uuid4(), "a")],
        "resume_condition": Single("a"),
    }
    with pytest.raises(ValidationError):
        await engine.suspend(handle, SuspendArgs(**{**right, **wrong}))


@pytest.mark.parametrize("after", ["x", (1,), (1, "x"), (-1, UUID(int=1))], ids=repr)
async def test_a_cursor_that_is_none(engine: Engine, after: Any) -> None:
    with pytest.raises(ValidationError, match="after"):
        await engine.list_open_waitpoints(after)


async def test_an_approval_that_is_none(engine: Engine) -> None:
    with pytest.raises(ValidationError, match="args"):
        await engine.deliver_approval_signal(None)  # type: ignore[arg-type]
