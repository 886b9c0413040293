"""The order of entries, and pages of them."""

from __future__ import annotations

import random

import pytest

from flowfabric.model.history import HistoryEntry, What
from flowfabric.rules.executions import history
from flowfabric.rules.executions.history import (
    ENDINGS,
    LEASES,
    ROWS,
    SIGNALS,
    EventReader,
    FirstLines,
    Line,
    PageEnd,
)

from .history_factory import (
    CORE,
    TRIED,
    WHO,
    lease,
    life,
)


def test_an_outbox_keeps_its_own_order_whatever_the_times_say() -> None:
    reader = EventReader(life(), LEASES)
    rows = [
        lease(1, "acquired", 9),
        lease(2, "revoked", 9, "delayed"),
        lease(3, "acquired", 9),
        lease(4, "expired", 3),
    ]
    keys = [line.key for row in rows for line in reader.read(row)]
    assert keys == sorted(keys) and len(set(keys)) == 4


def test_within_a_millisecond_creation_comes_first_and_the_end_last() -> None:
    made = next(history.row_lines(life()))
    assert made.key == history.creation_key(WHO, CORE.created_at_ms)
    (claimed,) = EventReader(life(), LEASES).read(lease(1, "acquired", 100))
    (ended,) = EventReader(life(), ENDINGS).read((1, WHO.uuid, "success", 100))
    assert sorted([ended, claimed, made], key=lambda line: line.key) == [made, claimed, ended]


def line(at: int, source: int = ROWS, number: int = 0) -> Line:
    return Line((at, 0, "", source, number), HistoryEntry(at, What.CREATED, WHO, None, {}), number)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("limit", [1, 3, 10, 100])
def test_the_first_lines_are_kept_in_any_order_of_arrival(seed: int, limit: int) -> None:
    lines = [line(at, number=at % 3) for at in range(40)]
    mixed = random.Random(seed).sample(lines, len(lines))
    chosen = FirstLines(limit, lines[9].key)
    for each in mixed:
        chosen.add(each)
        assert len(chosen.kept) <= 2 * limit
    assert chosen.lines() == lines[10 : 10 + limit]


def test_keys_past_the_page_are_beyond() -> None:
    chosen = FirstLines(2, None)
    assert not chosen.is_beyond(line(9).key)
    for at in (5, 7):
        chosen.add(line(at))
    assert chosen.is_beyond(line(8).key) and not chosen.is_beyond(line(6).key)


def test_a_new_line_is_kept_even_if_its_key_lies_on_an_earlier_page() -> None:
    chosen = FirstLines(2, line(9).key)
    chosen.add(line(5))
    chosen.add(line(6), new=True)
    assert [each.key[0] for each in chosen.lines()] == [6]


def test_a_page_end_holds_the_last_number_of_each_outbox() -> None:
    page = [line(1), line(2, LEASES, 4), line(3, SIGNALS, 7), line(4, LEASES, 6)]
    first = history.page_end(page, None, 1)
    assert first == PageEnd(page[-1].key, (6, 0, 7, 0), 1)
    late = history.page_end([line(2, ENDINGS, 3)], first, 1)
    assert late == PageEnd(page[-1].key, (6, 3, 7, 0), 1)


def test_the_attempt_that_ran_at_the_end_of_a_page() -> None:
    (claimed,) = EventReader(life(TRIED), LEASES).read(lease(1, "acquired", 5))
    assert history.last_attempt([line(1), claimed, line(9)], None) == 0
    assert history.last_attempt([line(1)], 3) == 3
