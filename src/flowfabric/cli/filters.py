"""The filters of `flowfabric list`, which every action on runs takes too."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from typing import Annotated, get_type_hints
from uuid import UUID

import typer
from msgspec import Struct, structs

from flowfabric.cli.identify import execution_of
from flowfabric.cli.text import parse_id
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError
from flowfabric.ids import parse_uuid
from flowfabric.model.search import ExecutionFilter
from flowfabric.model.state import PublicState
from flowfabric.sdk.durations import millis

TIMES = "a span such as 1h (since then), FROM..TO, FROM.. or ..TO, of ISO times or spans"
_SPAN = re.compile(r"[\d.]+[a-z][\da-z.]*\Z")


def _option(*names: str, help: str, metavar: str | None = None) -> typer.models.OptionInfo:
    found: typer.models.OptionInfo = typer.Option(*names, metavar=metavar, help=help)
    return found


class Filters(Struct, frozen=True, kw_only=True):
    """The options as they were typed."""

    state: Annotated[
        list[str] | None,
        _option(
            "--state",
            metavar="STATE",
            help=f"One of {', '.join(PublicState)}; repeatable, or separated by commas.",
        ),
    ] = None
    task: Annotated[str | None, _option("--task", metavar="NAME", help="The task.")] = None
    lane: Annotated[str | None, _option("--lane", metavar="LANE", help="The lane.")] = None
    tag: Annotated[
        str | None, _option("--tag", metavar="KEY[=VALUE]", help="A tag, with any or this value.")
    ] = None
    namespace: Annotated[
        str | None, _option("--namespace", metavar="NAME", help="The namespace.")
    ] = None
    parent: Annotated[
        str | None, _option("--parent", metavar="ID", help="The execution that started it.")
    ] = None
    flow: Annotated[str | None, _option("--flow", metavar="UUID", help="Its flow.")] = None
    worker: Annotated[
        str | None, _option("--worker", metavar="ID", help="The worker that runs it.")
    ] = None
    created: Annotated[
        str | None, _option("--created", metavar="WHEN", help=f"When it was created: {TIMES}.")
    ] = None
    ended: Annotated[
        str | None, _option("--ended", metavar="WHEN", help="When it ended, likewise.")
    ] = None
    error: Annotated[
        str | None,
        _option(
            "--error",
            metavar="TEXT",
            help="The type of its exception, or the beginning of its message.",
        ),
    ] = None
    key: Annotated[str | None, _option("--key", metavar="KEY", help="Its idempotency key.")] = None

    @property
    def given(self) -> dict[str, object]:
        return {name: value for name, value in structs.asdict(self).items() if value}

    @property
    def options(self) -> str:
        """The options again, for a command in a hint."""
        words: list[str] = []
        for name, value in self.given.items():
            for each in value if isinstance(value, list) else [value]:
                words += [f"--{name}", str(each)]
        return shlex.join(words)

    async def resolve(self, engine: EngineProtocol) -> ExecutionFilter:
        """The filter of the engine: ids are looked up, spans count from the store's time."""
        now = await engine.server_time_ms() if self.created or self.ended else 0
        created, ended = (
            time_range(text, now, field)
            for text, field in ((self.created, "--created"), (self.ended, "--ended"))
        )
        return ExecutionFilter(
            state=states(self.state or []),
            task=self.task,
            lane=self.lane,
            tag=self.tag,
            namespace=self.namespace,
            parent=await execution_of(engine, self.parent) if self.parent else None,
            flow=flow_id(self.flow) if self.flow else None,
            worker=self.worker,
            created_from=created[0],
            created_before=created[1],
            ended_from=ended[0],
            ended_before=ended[1],
            error=self.error,
            key=self.key,
        )


FILTER_OPTIONS = get_type_hints(Filters, include_extras=True)


def flow_id(text: str) -> UUID:
    return parse_id(parse_uuid, text, "--flow: expected the uuid of a flow")


def states(given: list[str]) -> tuple[PublicState, ...]:
    words = [word.strip() for text in given for word in text.split(",")]
    try:
        return tuple(PublicState(word) for word in words)
    except ValueError:
        accepted = ", ".join(PublicState)
        unknown = next(word for word in words if word not in set(PublicState))
        raise ConfigError(f"--state: expected one of {accepted}; got {unknown[:40]!r}") from None


def time_range(text: str | None, now_ms: int, field: str) -> tuple[int | None, int | None]:
    """From and before, in milliseconds; one time alone is the beginning."""
    if text is None:
        return None, None
    low, _, high = text.partition("..")
    first = _time(low, now_ms, field) if low else None
    before = _time(high, now_ms, field) if high else None
    if first is None and before is None:
        raise ConfigError(f"{field}: expected {TIMES}; got {text[:40]!r}")
    if first is not None and before is not None and first >= before:
        raise ConfigError(f"{field}: the range ends before it begins; got {text[:80]!r}")
    return first, before


def _time(text: str, now_ms: int, field: str) -> int:
    if _SPAN.match(text):
        return now_ms - millis(text, field)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{field}: expected {TIMES}; got {text[:40]!r}") from None
    aware = found if found.tzinfo else found.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1_000)
