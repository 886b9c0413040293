"""The output of the examples."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.processes import running
from tests.patience import patience

EXAMPLES = Path(__file__).parents[2] / "examples"


def said_by(name: str, folder: Path | None = None) -> str:
    env = {"PATH": "", "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
    run = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(
        run,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=patience(60),
        check=False,
        env=env,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_quickstart_is_the_same_the_second_time(tmp_path: Path) -> None:
    said = [said_by("quickstart.py", tmp_path) for _ in range(2)]
    assert said == ["Hello, world!\nimage-1.0 is live, approved by ann\n"] * 2


def test_the_quickstart_runs_beside_a_worker(tmp_path: Path) -> None:
    with running(tmp_path, "dev", str(EXAMPLES / "quickstart.py")) as dev:
        dev.until("quickstart.py: tasks greet, release")
        assert "image-1.0 is live" in said_by("quickstart.py", tmp_path)
        dev.process.terminate()
        assert dev.ended() == 0


def test_the_race_calls_the_losers_off() -> None:
    said = said_by("race.py")
    assert "unpacked the file, from mirror-b" in said
    assert [
        f"stops asking {mirror}" in said for mirror in ("mirror-a", "mirror-b", "mirror-c")
    ] == [True, False, True]
    assert "╭ any of 3: 1✔ 2✖ ╮" in said and "✔ 2 completed  ⊘ 2 cancelled" in said


def test_failed_runs_are_listed_and_those_with_one_error_retried() -> None:
    assert said_by("failed_runs.py").splitlines() == [
        "the flow is failed",
        "1 x Fatal: no address",
        "1 x Fatal: unknown customer: Eve",
        "1 of 2 would be retried",
        "1 retried",
        "Ann: sent to ann@example.com",
        "Bob: sent to bob@example.com",
        "Eve: RunFailed",
    ]


def test_the_pipeline_passes_data_on() -> None:
    said = said_by("pipeline.py")
    assert 'shop-a   was given {"pieces": 4}' in said
    assert 'book     was given {"shop": "shop-b", "total": 100}' in said
    assert "╭ 2 of 3 ──╮" in said and "│ 2✔ 1✖    │" in said


def test_the_deployment_waits_for_two_people() -> None:
    said = said_by("deploy_approval.py")
    assert "mallory  is refused: invalid_token" in said
    assert "alice    approves: already counted" in said
    assert "continues the same attempt, approved by alice and bob" in said
    assert "timeout  no second approval in time: release 43 has failed" in said


def test_summaries_stop_at_the_budget_and_continue_the_next_day() -> None:
    said = said_by("token_budget.py")
    assert "warning: 552 tokens spent, 400 planned" in said
    assert said.count("held:") == 2 and said.count("done:") == 6
    assert "all summaries: completed" in said


def test_the_first_model_to_answer_wins_within_the_budget() -> None:
    said = said_by("llm_race.py")
    assert "terse: answered with 8 tokens" in said
    assert "the answer: because air scatters blue light more than red" in said
    paid = int(said.partition(" of 60 tokens spent")[0].rpartition("\n")[2])
    assert 8 < paid < 60


def test_readers_that_come_late_or_break_off_see_the_whole_answer() -> None:
    said = said_by("streaming.py")
    answer = (
        "Short waves are scattered most, so the light that comes from all over the sky is blue."
    )
    assert "phone   loses its connection: Short waves are ..." in said
    assert all(f"{reader} has it all: {answer}" in said for reader in ("phone  ", "late   "))
    assert 'seen exactly once by both; the summary: {"last":"blue.","tokens":17}' in said
