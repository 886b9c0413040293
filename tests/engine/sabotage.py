"""Making the database itself refuse to cancel an execution, as an owner's trigger or a full disk
page would.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId

_KEPT = "the database keeps it"


@asynccontextmanager
async def not_to_be_cancelled(engine: Engine, ident: ExecutionId) -> AsyncIterator[None]:
    """Any transaction that cancels this one fails, for as long as this lasts."""
    run = engine.store.execute_for_test  # type: ignore[attr-defined]
    if engine.store.label == "sqlite":
        begin = [
            "CREATE TRIGGER keep_one BEFORE UPDATE ON ff_exec_core "
            f"WHEN old.execution_id = x'{ident.uuid.hex}' "
            f"AND new.lifecycle_phase = 'cancelled' BEGIN SELECT RAISE(ABORT, '{_KEPT}'); END"
        ]
        end = ["DROP TRIGGER keep_one"]
    else:
        begin = [
            "CREATE FUNCTION keep_one() RETURNS trigger LANGUAGE plpgsql AS $$ "
            f"BEGIN RAISE EXCEPTION '{_KEPT}'; END $$",
            "CREATE TRIGGER keep_one BEFORE UPDATE ON ff_exec_core FOR EACH ROW "
            f"WHEN (old.execution_id = '{ident.uuid}' "
            "AND new.lifecycle_phase = 'cancelled') EXECUTE FUNCTION keep_one()",
        ]
        end = ["DROP TRIGGER keep_one ON ff_exec_core", "DROP FUNCTION keep_one"]
    for statement in begin:
        await run(statement)
    try:
        yield
    finally:
        for statement in end:
            await run(statement)
