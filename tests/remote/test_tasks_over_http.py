"""The tests of tasks, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from flowfabric import App, Engine
from flowfabric.testing import ManualClock
from tests.conftest import make_engine
from tests.remote.served import Served
from tests.sdk.test_children import (  # noqa: F401 - run here a second time
    ran,
    test_children_may_have_children_of_their_own,
    test_failed_child_raises_in_the_parent,
    test_one_slot_is_enough,
    test_results_come_back_typed_and_in_order,
    test_return_exceptions_makes_failures_results,
    test_two_waits_and_steps_in_between,
)
from tests.sdk.test_hearing_of_cancel import (  # noqa: F401 - run here a second time
    test_running_task_is_cancelled_within_a_second,
)
from tests.sdk.test_joins import (  # noqa: F401 - run here a second time
    declared,
    test_group_argument_is_the_results_of_those_that_succeeded,
    test_race_argument_is_the_first_result,
)
from tests.sdk.test_keys import (  # noqa: F401 - run here a second time
    test_the_same_key_with_other_arguments_names_the_run_that_has_it,
)
from tests.sdk.test_task_runs import (  # noqa: F401 - run here a second time
    test_a_cancelled_and_a_late_run_raise_their_own_errors,
    test_a_flow_passes_results_on,
    test_a_flow_with_a_mistake_submits_nothing,
    test_a_step_runs_once_however_often_the_task_is_run,
    test_a_worker_takes_only_what_it_can_run,
    test_approval_returns_the_answers_of_distinct_approvers,
    test_changed_order_of_steps_fails_the_run,
    test_duplicate_step_name_is_refused,
    test_middleware_wraps_the_task_in_order,
    test_output_progress_and_budgets,
    test_state_is_given_by_type,
    test_suspend_raises_after_its_timeout,
    test_waiting_run_is_signalled_by_its_id,
)
from tests.sdk.test_tasks import (  # noqa: F401 - run here a second time
    test_a_plain_function_runs_in_a_thread,
    test_a_task_is_submitted_run_and_its_result_read,
    test_arguments_are_decoded_by_their_hints,
    test_failure_is_retried_if_its_class_is_listed,
    test_raised_retry_and_fatal_decide_about_the_retry,
    test_the_same_key_is_the_same_run,
)
from tests.sdk.test_timeouts import (  # noqa: F401 - run here a second time
    test_after_a_wait_the_worker_gives_an_attempt_what_is_left,
)


@pytest.fixture(params=["memory", "sqlite-file", "postgres"])
def engine(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Iterator[Engine]:
    made = make_engine(request.param, clock, tmp_path)
    yield made
    asyncio.run(made.close())


@pytest.fixture
def app(engine: Engine) -> App:
    return App("memory://", engine=cast(Engine, Served(engine)))
