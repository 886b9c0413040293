"""The tests of flow handles, over HTTP."""

from __future__ import annotations

import pytest

from tests.remote.test_tasks_over_http import app, engine  # noqa: F401 - fixtures
from tests.sdk.test_flow_handles import (  # noqa: F401 - run here a second time
    declared,
    test_a_failed_flow_raises_with_the_errors_of_its_runs,
    test_a_won_race_is_completed_without_results_of_its_losers,
    test_an_existing_flow_has_a_handle,
    test_an_unknown_flow_is_not_found,
    test_cancel_ends_every_run_with_its_reason,
    test_results_are_named_by_their_nodes,
    test_wait_returns_when_the_last_run_has_ended,
    test_wait_says_how_much_is_left_after_its_timeout,
)

pytestmark = pytest.mark.usefixtures("declared")
