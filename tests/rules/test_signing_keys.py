"""Plans of signing keys."""

from __future__ import annotations

from flowfabric.model.signing_key import HmacKey
from flowfabric.plan import Arg, Insert
from flowfabric.rules.waits import signing_keys


def test_a_copied_key_has_every_column_of_its_source() -> None:
    key = HmacKey("k1", 5, 0, 9, b"s" * 32)
    plan = signing_keys.copied(key)
    (step,) = plan.form.steps
    assert isinstance(step, Insert)
    assert {column: plan.values[plan.form.args.index(column)] for column in step.row} == {
        "kid": "k1",
        "rotated_at_ms": 5,
        "active": 0,
        "expires_at_ms": 9,
        "secret": b"s" * 32,
    }
    assert all(step.row[column] == Arg(column) for column in step.row)
