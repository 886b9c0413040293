"""The tests of actions on runs, over HTTP."""

from __future__ import annotations

import pytest

from tests.remote.test_tasks_over_http import app, engine  # noqa: F401 - fixtures
from tests.sdk.test_run_actions import (  # noqa: F401 - run here a second time
    calls,
    declared,
    test_a_dry_run_changes_nothing,
    test_a_job_that_is_stopped_changes_nothing_more,
    test_a_run_is_restarted_from_a_step,
    test_a_uuid_names_a_run,
    test_a_waiting_run_is_moved_and_a_delayed_one_released,
    test_an_action_applies_to_all_that_match,
    test_an_ended_run_is_deleted,
    test_an_unknown_job_is_not_found,
    test_every_call_of_a_run_named_by_its_uuid_looks_it_up,
    test_failed_runs_are_retried_moved_and_deleted,
)

pytestmark = pytest.mark.usefixtures("declared")
