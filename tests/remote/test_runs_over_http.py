"""The tests of listings, over HTTP."""

from __future__ import annotations

import pytest

from tests.remote.test_tasks_over_http import app, engine  # noqa: F401 - fixtures
from tests.sdk.test_runs import (  # noqa: F401 - run here a second time
    declared,
    test_a_failed_run_shows_its_error_and_a_cancelled_one_its_reason,
    test_a_listing_shows_the_facts_of_each_run,
    test_a_run_shows_its_last_progress,
    test_children_and_the_run_of_a_key_are_found,
    test_counts_add_up_by_state_task_and_lane,
    test_pages_follow_each_other_in_both_orders,
    test_runs_are_listed_by_state_task_lane_and_tag,
    test_times_are_spans_datetimes_or_pairs,
)

pytestmark = pytest.mark.usefixtures("declared")
