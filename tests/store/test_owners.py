"""The namespace of each row, and what each namespace gets of a row of all."""

from __future__ import annotations

import json
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.store.owners import BASE_ONLY, EVERYWHERE, JOBS, Owners
from flowfabric.store.port import Row
from flowfabric.store.schema import TABLES
from tests.store.copying import a_value

ANN, FLOW, EMPTY, BUDGET, QUOTA, STRANGER = (UUID(int=n << 64 | 8 << 60) for n in range(1, 7))


def row_of(table: str, **given: object) -> Row:
    declared = TABLES[table]
    return tuple(given.get(each.name, a_value(declared, each, 0)) for each in declared.columns)


def noted(owners: Owners, table: str, **given: object) -> str | None:
    return owners.note(TABLES[table], row_of(table, **given))


def known() -> Owners:
    owners = Owners()
    noted(owners, "ff_exec_core", execution_id=ANN, flow_id=FLOW, namespace="ann")
    noted(owners, "ff_exec_core", execution_id=STRANGER, flow_id=None, namespace="default")
    noted(owners, "ff_flow_core", flow_id=EMPTY, raw_fields='{"namespace": "eve"}')
    noted(owners, "ff_budget_policy", budget_id=BUDGET, namespace="bob")
    noted(owners, "ff_quota_policy", quota_policy_id=QUOTA, namespace="bob")
    return owners


def test_a_row_has_the_namespace_of_its_owner() -> None:
    owners = known()
    assert noted(owners, "ff_attempt", execution_id=ANN) == "ann"
    assert noted(owners, "ff_attempt", execution_id=STRANGER) == "default"
    assert noted(owners, "ff_flow_core", flow_id=FLOW, raw_fields="{}") == "ann"
    assert noted(owners, "ff_flow_core", flow_id=FLOW, raw_fields="{damaged") == "ann"
    assert noted(owners, "ff_edge", flow_id=FLOW) == "ann"
    assert noted(owners, "ff_edge", flow_id=EMPTY) == "eve"
    assert noted(owners, "ff_cancel_backlog_member", flow_id=EMPTY, execution_id="x") == "eve"
    assert noted(owners, "ff_budget_usage", budget_id=BUDGET) == "bob"
    assert noted(owners, "ff_quota_window", quota_policy_id=QUOTA, execution_id=STRANGER) == "bob"
    assert noted(owners, "ff_lease_event", execution_id=ANN, namespace=None) == "ann"
    assert noted(owners, "ff_lease_event", execution_id=ANN, namespace="own") == "own"
    assert noted(owners, "ff_api_token", namespace="ann") == "default"
    assert noted(owners, "ff_task", namespace="n" * 300) == "default"


def test_every_table_has_a_rule() -> None:
    owners = known()
    for name in TABLES:
        found = noted(owners, name, namespace="ann", execution_id=ANN, flow_id=FLOW)
        wanted = "default" if name in BASE_ONLY else "ann"
        assert found == (None if name in EVERYWHERE else wanted), name


def test_a_running_job_of_all_namespaces_goes_on_in_each() -> None:
    owners = known()
    idents = [str(ExecutionId.of(1, each)) for each in (ANN, STRANGER)]
    job = {"namespace": None, "follow_ups": json.dumps(idents), "errors": '["e"]'}
    row = row_of(JOBS, **job, state="running", matched=7, cursor="c")
    table = TABLES[JOBS]
    assert owners.note(table, row) is None
    assert owners.part(table, row, "default", None) == row
    part = owners.part(table, row, "ann", None)
    assert part is not None
    found = dict(zip(table.names, part, strict=True))
    assert (found["matched"], found["errors"], found["cursor"]) == (0, "[]", "c")
    assert json.loads(found["follow_ups"]) == idents[:1]
    ended = row_of(JOBS, **job, state="completed")
    assert owners.part(table, ended, "ann", None) is None
    assert owners.part(table, ended, "default", None) == ended
    own = row_of(JOBS, **{**job, "namespace": "ann"}, state="completed")
    assert owners.part(table, own, "ann", owners.note(table, own)) == own
