"""Tenants on servers, on a virtual clock."""

from __future__ import annotations

from pathlib import Path
from random import Random
from statistics import fmean

import pytest
from benchmarks.cell_simulation import (
    SLOTS,
    Fleet,
    Loss,
    Tenants,
    Waits,
    main,
    placed,
    poisson,
    simulate,
    slot,
)

FLEET = Fleet(servers=4, each_us=100)
SHORT = Loss(at_s=5, down_s=2)


def test_a_slot_is_that_of_the_cluster() -> None:
    assert slot("123456789") == 0x31C3 % SLOTS
    assert slot("foo") == 12_182


def test_shares_of_tenants_sum_up_and_follow_the_skew() -> None:
    shares = Tenants(10, 1.0).shares()
    assert sum(shares) == pytest.approx(1)
    assert shares[0] == pytest.approx(5 * shares[4])
    assert len(set(Tenants(10, 0).shares())) == 1


@pytest.mark.parametrize("balanced", [False, True])
def test_every_cell_is_on_one_server(balanced: bool) -> None:
    shares = Tenants(100, 1.0).shares()
    homes = placed(shares, Fleet(4, 100, balanced=balanced))
    assert sorted(share for home in homes for share in home) == sorted(shares)


def test_placement_by_load_evens_out_what_a_hash_does_not() -> None:
    shares = Tenants(1_000, 0.7).shares()
    by_hash = max(map(sum, placed(shares, FLEET)))
    by_load = max(map(sum, placed(shares, Fleet(4, 100, balanced=True))))
    assert by_load == pytest.approx(0.25, abs=0.001)
    assert by_hash > 0.26


@pytest.mark.parametrize("mean", [0.5, 8, 200])
def test_arrivals_have_their_mean_and_variance(mean: float) -> None:
    random = Random(3)
    drawn = [poisson(random, mean) for _ in range(20_000)]
    found = fmean(drawn)
    assert found == pytest.approx(mean, rel=0.03)
    assert fmean((each - found) ** 2 for each in drawn) == pytest.approx(mean, rel=0.06)


def test_a_quantile_counts_arrivals_and_not_moments() -> None:
    waits = Waits()
    waits.add(0.1, 99)
    waits.add(9.0, 1)
    waits.add(50.0, 0)
    assert (waits.quantile(0.5), waits.quantile(0.99), waits.quantile(1)) == (0.1, 0.1, 9.0)


def test_a_loss_delays_the_cells_of_its_server_only() -> None:
    lost, *others = simulate(Tenants(100, 0), FLEET, 20_000, 20, SHORT)
    assert lost.before.quantile(1) < 0.1
    assert lost.after.quantile(1) == pytest.approx(2, abs=0.05)
    assert lost.used >= others[0].used > 0.4
    assert 2 < lost.recovered_s < 2 + 2 * lost.used / (1 - lost.used) + 1
    assert max(each.after.quantile(1) for each in others) < 0.1
    assert all(each.recovered_s < 1 for each in others)


def test_a_server_with_more_than_it_can_do_never_recovers() -> None:
    lost, *_ = simulate(Tenants(100, 2.0), FLEET, 30_000, 10, SHORT)
    assert lost.used > 1
    assert lost.recovered_s == float("inf")
    assert lost.before.quantile(1) > 1


def test_the_table_replaces_the_one_between_its_marks(tmp_path: Path) -> None:
    document = tmp_path / "scale.md"
    document.write_text("before\n<!-- cells -->\nold\n<!-- end of cells -->\nafter\n")
    main(["--write", str(document), "--seconds", "8", "--servers", "2"])
    text = document.read_text()
    assert text.startswith("before\n<!-- cells -->\n2 servers;")
    assert "old" not in text
    assert text.count("\n| ") == 7
