"""A file of steps, and the statements of its batches."""

from __future__ import annotations

import pytest

from flowfabric.store.migration_steps import Progress, Step, steps_of

ONE = Step("batches", "UPDATE t SET x = 1 WHERE {batch}", "t", ("a", "b"), 50)


def test_a_file_without_marks_is_one_transaction() -> None:
    assert steps_of("CREATE TABLE t (x bigint);\n-- a step: run\n") == ()


def test_a_file_of_steps() -> None:
    sql = f"""-- Why.
-- step: run
ALTER TABLE t ADD x bigint;
ALTER TABLE t ADD y bigint;
-- step: batches t (a, b) 50
{ONE.sql};
-- step: index t_by_x
CREATE INDEX CONCURRENTLY t_by_x ON t (x);
"""
    assert steps_of(sql) == (
        Step("run", "ALTER TABLE t ADD x bigint;\nALTER TABLE t ADD y bigint;"),
        ONE,
        Step("index", "CREATE INDEX CONCURRENTLY t_by_x ON t (x)", "t_by_x"),
    )
    assert [step.whole for step in steps_of(sql)[1:]] == [
        "UPDATE t SET x = 1 WHERE true",
        "CREATE INDEX t_by_x ON t (x)",
    ]


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("-- step: walk\nSELECT 1", "walk"),
        ("-- step: batches t 50\nUPDATE t SET x = 1 WHERE {batch}", "batches t 50"),
        ("-- step: batches t (a) 50\nUPDATE t SET x = 1", "{batch}"),
    ],
)
def test_a_mark_that_is_not_understood(sql: str, named: str) -> None:
    with pytest.raises(AssertionError, match=named.replace("{", "\\{")):
        steps_of(sql)


def test_the_first_batch_has_no_lower_end() -> None:
    assert ONE.batch("", "(1, 'z')") == "UPDATE t SET x = 1 WHERE (true AND (a, b) <= (1, 'z'))"
    assert (
        ONE.batch("(1, 'z')", "(2, 'a')")
        == "UPDATE t SET x = 1 WHERE ((a, b) > (1, 'z') AND (a, b) <= (2, 'a'))"
    )


def test_the_key_that_ends_a_batch() -> None:
    assert ONE.last_of_batch("quote(a)", "(1, 'z')", 7) == (
        "SELECT quote(a) FROM (SELECT a, b FROM t WHERE (a, b) > (1, 'z') ORDER BY a, b LIMIT 7) "
        "AS batch ORDER BY a DESC, b DESC LIMIT 1"
    )


def test_progress_names_the_total_when_it_is_known() -> None:
    assert str(Progress("0002_x", 2, 3, 500)) == "0002_x: step 2 of 3, 500 rows"
    assert str(Progress("0002_x", 2, 3, 500, 900)) == "0002_x: step 2 of 3, 500 rows of about 900"
