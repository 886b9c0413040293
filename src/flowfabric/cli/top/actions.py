"""What an operator can do from `flowfabric top`, in one call of the engine each."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from flowfabric.cli.text import clean, short
from flowfabric.cli.top.rows import Kind, Target
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CancelExecutionArgs, ReplayExecutionArgs

MAX_OPERATOR, MAX_REASON = 64, 200


class Action(StrEnum):
    CANCEL = "cancel"
    RETRY = "retry"
    PAUSE = "pause"
    RESUME = "resume"


_OF_RUNS = (Action.CANCEL, Action.RETRY)


class Request(Struct, frozen=True):
    """An action on a run, or on the lane of this name."""

    action: Action
    lane: str = ""
    execution: ExecutionId | None = None

    @property
    def question(self) -> str:
        match self.action:
            case Action.CANCEL:
                return f"Cancel run {self.subject}?"
            case Action.RETRY:
                return f"Run {self.subject} again?"
            case Action.PAUSE:
                return f"Pause lane {self.subject}? Its executions wait until it is resumed."
            case Action.RESUME:
                return f"Resume lane {self.subject}?"

    @property
    def subject(self) -> str:
        return clean(self.lane) if self.execution is None else short(self.execution)


def request(action: Action, target: Target | None) -> Request | None:
    """The request for the subject of a row; None where the action does not apply."""
    if target is None:
        return None
    if action in _OF_RUNS:
        ident = target.execution
        return None if ident is None else Request(action, execution=ident)
    return Request(action, lane=target.name) if target.kind is Kind.LANE else None


def not_applicable(action: Action) -> str:
    subject = "a run" if action in _OF_RUNS else "a lane"
    return f"{action}: choose {subject} first"


async def perform(engine: EngineProtocol, wanted: Request, operator: str, reason: str) -> str:
    """Carries it out and returns what was done. A refused call changes nothing."""
    why = f"{reason}; " if reason else ""
    note = f"{why}by {operator} in flowfabric top"
    match wanted.action:
        case Action.CANCEL:
            assert wanted.execution is not None
            await engine.cancel_execution(
                CancelExecutionArgs(execution_id=wanted.execution, reason=note)
            )
            return f"run {wanted.subject} is cancelled"
        case Action.RETRY:
            assert wanted.execution is not None
            done = await engine.replay_execution(
                ReplayExecutionArgs(
                    execution_id=wanted.execution, reason=reason or None, requested_by=operator
                )
            )
            return f"run {wanted.subject} is {done.public_state} again"
        case Action.PAUSE:
            await engine.pause_lane(wanted.lane)
            return f"lane {wanted.subject} is paused"
        case Action.RESUME:
            await engine.resume_lane(wanted.lane)
            return f"lane {wanted.subject} is active"
