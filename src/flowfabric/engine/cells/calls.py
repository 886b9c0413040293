"""One operation over cells: the cell is found by the arguments, then called."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from flowfabric.engine.cells import locate
from flowfabric.engine.cells.locate import Locator, Subject
from flowfabric.engine.cells.pool import BASE, Cells
from flowfabric.engine.cells.routes import ROUTES, Route, To
from flowfabric.engine.engine import Engine
from flowfabric.errors import FlowFabricError, NotFound, Unavailable
from flowfabric.ids import ExecutionId, execution_id, parse_uuid
from flowfabric.model.lease import Handle

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Call = Callable[..., Awaitable[Any]]
_CREATED = {"execution_id": locate.EXECUTION, "flow_id": locate.FLOW}


class Parameter(Struct, frozen=True):
    """A parameter of an operation, and the fields that lead from it to what a route needs."""

    name: str
    position: int | None
    default: object
    fields: tuple[str, ...]

    @classmethod
    def of(cls, method: Callable[..., object], path: str) -> Parameter:
        name, *fields = path.split(".")
        listed = list(inspect.signature(method).parameters.values())[1:]
        found = next(each for each in listed if each.name == name)
        is_positional = found.kind is found.POSITIONAL_OR_KEYWORD
        position = listed.index(found) if is_positional else None
        return cls(name, position, found.default, tuple(fields))

    def value(self, arguments: Arguments) -> object:
        """None where the caller gave something else; the engine of a cell then refuses it."""
        given, named = arguments
        if self.position is not None and self.position < len(given):
            found: object = given[self.position]
        else:
            found = named.get(self.name, self.default)
        for field in self.fields:
            found = getattr(found, field, None)
        return found


def subject_of(kind: str, value: object) -> Subject | None:
    """What a value names; None if it is not an id."""
    try:
        if kind == locate.EXECUTION:
            return kind, execution_id(value)
        return kind, parse_uuid(str(value))
    except (FlowFabricError, ValueError):
        return None


class CellCalls:
    """Operations as callables that pass each call to its cell."""

    def __init__(self, cells: Cells, locator: Locator) -> None:
        self._cells, self._locator = cells, locator

    def operation(self, name: str, method: Callable[..., object]) -> Call:
        route = ROUTES[name]
        match route.to:
            case To.NAMESPACE | To.CREATES:
                return self._by_namespace(name, route, Parameter.of(method, route.path))
            case To.ENTITY:
                parameter = Parameter.of(method, route.path)
                by_value = self._subject(route.kind, parameter)
                return self._by_entity(name, by_value, retries_none=_may_answer_none(method))
            case To.HANDLE:
                return self._by_entity(name, self._held(Parameter.of(method, route.path)))
            case To.LIMIT:
                return self._by_entity(name, self._limit(method))
            case To.BASE:
                return self._bound(self._cells.base, name)
            case To.ONE_CELL:
                return self._refused(name)
        return self._by_all(name, route.to)

    def _by_namespace(self, name: str, route: Route, parameter: Parameter) -> Call:
        async def call(*given: Any, **named: Any) -> Any:
            namespace = parameter.value((given, named))
            if not isinstance(namespace, str):
                return await self._bound(self._cells.base, name)(*given, **named)
            if route.to is To.NAMESPACE:
                cell = self._cells.cell(namespace)
            else:
                cell = await self._cells.registered(namespace)
            answer = await self._bound(cell, name)(*given, **named)
            if namespace != BASE:
                self._note(answer, namespace)
            return answer

        return call

    def _note(self, answer: object, namespace: str) -> None:
        for field, kind in _CREATED.items():
            ident = getattr(answer, field, None)
            if ident is not None:
                self._locator.note((kind, ident), namespace)

    def _by_entity(
        self,
        name: str,
        subject_in: Callable[[Arguments], Subject | None],
        *,
        retries_none: bool = False,
    ) -> Call:
        async def call(*given: Any, **named: Any) -> Any:
            subject = subject_in((given, named))
            if subject is None:
                return await self._bound(self._cells.base, name)(*given, **named)
            cell = await self._locator.cell_of(subject)
            try:
                answer = await self._bound(cell, name)(*given, **named)
            except NotFound:
                other = await self._elsewhere(subject, cell)
                if other is None:
                    raise
                return await self._bound(other, name)(*given, **named)
            if answer is None and retries_none:
                other = await self._elsewhere(subject, cell)
                if other is not None:
                    return await self._bound(other, name)(*given, **named)
            return answer

        return call

    async def _elsewhere(self, subject: Subject, cell: Engine) -> Engine | None:
        """Another cell that has it now: ids that were removed may be created elsewhere."""
        if not self._locator.forget(subject):
            return None
        found = await self._locator.cell_of(subject)
        return None if found is cell else found

    def _by_all(self, name: str, to: To) -> Call:
        async def call(*given: Any, **named: Any) -> Any:
            def ask(cell: Engine) -> Awaitable[Any]:
                return self._bound(cell, name)(*given, **named)

            if to is To.EVERYWHERE:
                return await self._cells.everywhere(ask)
            answers = await self._cells.answers(ask)
            if to is To.CONCAT:
                return list(dict.fromkeys(each for answer in answers for each in answer))
            return sum(answers) if to is To.SUM else max(answers)

        return call

    def _refused(self, name: str) -> Call:
        async def call(*given: Any, **named: Any) -> Any:
            raise Unavailable(f"{name} over several cells; it is a step of the loops of one cell")

        return call

    # ---- what the arguments name

    def _subject(self, kind: str, parameter: Parameter) -> Callable[[Arguments], Subject | None]:
        return lambda arguments: subject_of(kind, parameter.value(arguments))

    def _held(self, parameter: Parameter) -> Callable[[Arguments], Subject | None]:
        return lambda arguments: self.held(parameter.value(arguments))

    def held(self, handle: object) -> Subject | None:
        if not isinstance(handle, Handle):
            return None
        ident: ExecutionId = self._cells.base.fields(handle).execution_id
        return locate.EXECUTION, ident

    def _limit(self, method: Callable[..., object]) -> Callable[[Arguments], Subject | None]:
        kind, ident = Parameter.of(method, "kind"), Parameter.of(method, "limit_id")

        def found(arguments: Arguments) -> Subject | None:
            named = kind.value(arguments)
            if named not in (locate.BUDGET, locate.QUOTA):
                return None
            return subject_of(str(named), ident.value(arguments))

        return found

    def _bound(self, cell: Engine, name: str) -> Call:
        bound: Call = getattr(cell, name)
        return bound


def _may_answer_none(method: Callable[..., object]) -> bool:
    """Whether None means that the entity is not there."""
    return str(inspect.signature(method).return_annotation).endswith("| None")
