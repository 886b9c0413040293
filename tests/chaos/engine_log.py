"""A wrapper around the engine of tasks that logs calls and answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial, wraps
from typing import Any, cast

from flowfabric import Engine, EngineError
from flowfabric.engine.proxy import Operation, Proxy
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import FlowSubmitted, SubmitFlowArgs
from flowfabric.model.lease import ClaimPolicy, Handle, Work
from flowfabric.model.waitpoint import DeliverSignalArgs

from .driver import made
from .logs import Log
from .signaller import heard
from .worker import failed, granted, parked, renewed

Completions = Sequence[tuple[Handle, bytes | None]]


class EngineLog:
    """One for all engines of a process, including those of other threads. `trap` is called at each
    point.
    """

    def __init__(self, log: Log, trap: Callable[[str], None] = lambda point: None) -> None:
        self._log, self._trap = log, trap
        self._held: dict[bytes, dict[str, Any]] = {}

    def around(self, engine: Engine) -> Engine:
        return cast(Engine, Proxy(engine, self._wrap))

    def _wrap(self, name: str, operation: Operation) -> Operation | None:
        logged = getattr(self, f"_{name}", None)
        return None if logged is None else wraps(operation)(partial(logged, operation))

    # ---- clients

    async def _create_execution(
        self, ask: Operation, args: CreateExecutionArgs, **more: Any
    ) -> Any:
        facts: dict[str, Any] = {
            "asked": [(args.execution_id, args.idempotency_key)],
            "runs": [_told(args)],
        }
        return await self._log.call("create", ask(args, **more), made, **facts)

    async def _submit_flow(self, ask: Operation, args: SubmitFlowArgs) -> Any:
        facts: dict[str, Any] = {"asked": [(node.execution_id, None) for node in args.nodes]}
        facts["runs"] = [_told(node) for node in args.nodes]

        def saw(answer: Any) -> dict[str, Any]:
            return {
                "made": [
                    (node.execution_id, isinstance(answer, FlowSubmitted)) for node in args.nodes
                ]
            }

        return await self._log.call(
            "create", ask(args), saw, after=lambda: self._trap("after_submit"), **facts
        )

    async def _cancel_execution(self, ask: Operation, args: Any) -> Any:
        return await self._log.call("cancel", ask(args), execution=args.execution_id)

    async def _deliver_signal(self, ask: Operation, args: DeliverSignalArgs) -> Any:
        facts: dict[str, Any] = {
            "execution": args.execution_id,
            "waitpoint": str(args.waitpoint_id),
            "signal": str(args.signal_id),
        }
        return await self._log.call("signal", ask(args), heard, **facts)

    # ---- workers

    async def _claim_many(
        self, ask: Operation, lane: str, able: Any, policy: ClaimPolicy, n: int, **more: Any
    ) -> list[Work]:
        asked = ask(lane, able, policy, n, **more)
        works: list[Work] = await self._log.call("claim", asked, granted, **_holder(policy))
        return self._holding(works)

    async def _complete_many(self, ask: Operation, many: Completions, **more: Any) -> Any:
        answers, _ = await self._completed(many, partial(_alone, ask, many, more))
        return answers

    async def _complete_and_claim(
        self,
        ask: Operation,
        many: Completions,
        lane: str,
        able: Any,
        policy: ClaimPolicy,
        n: int,
        **more: Any,
    ) -> Any:
        claiming = self._log.write("ask", "claim", **_holder(policy))
        answers, works = await self._completed(
            many, partial(ask, many, lane, able, policy, n, **more)
        )
        self._log.write("ack", "claim", call=claiming, **granted(works))
        return answers, self._holding(works)

    async def _completed(
        self, many: Completions, ask: Callable[[], Awaitable[tuple[Any, list[Work]]]]
    ) -> tuple[Any, list[Work]]:
        log = self._log
        asked = [
            log.write("ask", "complete", data=_text(data), **self._whose(handle))
            for handle, data in many
        ]
        self._trap("before_complete")
        try:
            answers, works = await ask()
        except EngineError as error:
            for number in asked:
                log.refused("complete", number, error)
            raise
        self._trap("after_complete")
        for number, answer in zip(asked, answers, strict=True):
            if answer is None:
                log.write("ack", "complete", call=number)
            else:
                log.refused("complete", number, answer)
        return answers, works

    async def _renew(self, ask: Operation, handle: Handle) -> Any:
        return await self._log.call("renew", ask(handle), renewed, **self._whose(handle))

    async def _fail(self, ask: Operation, handle: Handle, *args: Any, **more: Any) -> Any:
        return await self._fenced("fail", handle, ask(handle, *args, **more), failed)

    async def _cancel(self, ask: Operation, handle: Handle, *args: Any, **more: Any) -> Any:
        return await self._fenced("give_up", handle, ask(handle, *args, **more))

    async def _delay(self, ask: Operation, handle: Handle, *args: Any, **more: Any) -> Any:
        return await self._fenced("delay", handle, ask(handle, *args, **more))

    async def _suspend(self, ask: Operation, handle: Handle, *args: Any, **more: Any) -> Any:
        wanted = args[0] if args else more["args"]

        def saw(outcome: Any) -> dict[str, Any]:
            """The key of a wait is the same under each lease: a late holder is answered what an
            earlier suspend came to.
            """
            repeats = outcome.details.suspension_id != wanted.suspension_id
            return {**parked(outcome), **({"repeats": True} if repeats else {})}

        return await self._fenced("suspend", handle, ask(handle, *args, **more), saw)

    async def _record_step(
        self,
        ask: Operation,
        handle: Handle,
        position: int,
        name: str,
        value: bytes | None = None,
        kind: str = "step",
    ) -> Any:
        def saw(record: Any) -> dict[str, Any]:
            return {"value": _text(record.value)}

        asked = ask(handle, position, name, value, kind)
        return await self._fenced(
            "step", handle, asked, saw, position=position, value=_text(value), what=kind
        )

    async def _fenced(
        self, op: str, handle: Handle, asked: Awaitable[Any], saw: Any = None, **facts: Any
    ) -> Any:
        return await self._log.call(
            op, asked, saw, after=lambda: self._trap(f"after_{op}"), **facts, **self._whose(handle)
        )

    def _holding(self, works: list[Work]) -> list[Work]:
        self._trap("after_claim")
        for work in works:
            whose = {
                "execution": work.execution_id,
                "epoch": work.lease_epoch,
                "attempt": work.attempt_index,
            }
            self._held[work.handle.opaque] = whose
        return works

    def _whose(self, handle: Handle) -> dict[str, Any]:
        return self._held[handle.opaque]


async def _alone(ask: Operation, many: Completions, more: dict[str, Any]) -> tuple[Any, list[Work]]:
    return await ask(many, **more), []


def _holder(policy: ClaimPolicy) -> dict[str, Any]:
    return {"as": policy.worker_instance_id}


def _text(value: bytes | None) -> str:
    return (value or b"").decode()


def _told(args: CreateExecutionArgs) -> tuple[str, str, str]:
    """Namespace, task and arguments of a run."""
    return args.namespace, args.execution_kind, args.input_payload.decode()
