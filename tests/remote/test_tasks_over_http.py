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
    test_a_failed_child_is_told_in_the_parent,
    test_children_of_children,
    test_failures_may_be_results,
    test_one_slot_is_enough,
    test_results_come_back_typed_and_in_order,
    test_two_waits_and_steps_in_between,
)
from tests.sdk.test_hearing_of_cancel import (  # noqa: F401 - run here a second time
    test_a_running_task_hears_of_its_cancel,
)
from tests.sdk.test_joins import (  # noqa: F401 - run here a second time
    declared,
    test_a_join_is_given_the_results_of_those_that_succeeded,
    test_a_race_is_given_the_result_of_the_first,
)
from tests.sdk.test_keys import (  # noqa: F401 - run here a second time
    test_the_same_key_with_other_arguments_names_the_run_that_has_it,
)
from tests.sdk.test_tasks import (  # noqa: F401 - run here a second time
    test_a_failure_is_tried_again_if_its_kind_is_named,
    test_a_flow_passes_results_on,
    test_a_flow_with_a_mistake_submits_nothing,
    test_a_plain_function_runs_in_a_thread,
    test_a_run_that_waits_is_told_by_its_id,
    test_a_step_runs_once_however_often_the_task_is_run,
    test_a_task_is_submitted_run_and_its_result_read,
    test_a_worker_takes_only_what_it_can_run,
    test_another_order_of_steps_is_an_error,
    test_arguments_come_as_the_hints_say,
    test_cancelled_and_timed_out,
    test_middleware_stands_around_the_task,
    test_nobody_answered_in_time,
    test_one_name_for_two_steps_is_an_error,
    test_output_progress_and_budgets,
    test_people_are_asked_and_their_answers_come_back,
    test_retry_and_fatal_say_it_themselves,
    test_state_is_given_by_type,
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
