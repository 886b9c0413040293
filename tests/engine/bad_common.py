"""Values that nothing accepts, and how a case is made of one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import MAX_PAYLOAD_BYTES
from flowfabric.model.lease import Handle

UUID_TEXT = "11111111-1111-1111-1111-111111111111"
LONE = "\ud800"
IDS = (
    "",
    "nonsense",
    UUID_TEXT,
    f"{{fp:}}:{UUID_TEXT}",
    f"{{fp:x}}:{UUID_TEXT}",
    f"{{fp:65536}}:{UUID_TEXT}",
    f"{{fp:-1}}:{UUID_TEXT}",
    "{fp:0}:not-a-uuid",
    "{fp:0}:",
    LONE,
    None,
    5,
    b"x",
)
LANES = ("", "x" * 65, "a\tb", "a\x00", "ü", LONE, None, 5)
NAMES = ("", "x" * 257, "ü" * 129, LONE, None, 5)
TEXTS = ("x" * 70_000, LONE, 5, b"x")
TTLS = (0, -1, 86_400_001, 2**63, True, "5", 1.5, None)
TIMES = (-1, 2**53, 2**63, True, "5", 1.5)
LIMITS = (-1, True, "5", 1.5, None)
PARTITIONS = (1, "{fp:1}", "fp:0", "{b:0}", "{fp:}", "{fp:99999}", -1, 65_536, True, b"{fp:0}")
TOKENS = (
    "gpu",
    b"gpu",
    5,
    None,
    [""],
    ["a,b"],
    ["a b"],
    ["a\x00"],
    [LONE],
    [5],
    [f"t{n}" for n in range(257)],
    ["x" * 4_097],
)
TAG_KEYS = (
    "",
    "Cairn.x",
    "1cairn.x",
    "cairn",
    "cairn.",
    "cairn..x",
    ".cairn",
    "cair n.x",
    "ca-irn.x",
    "cairn.Foo",
    "cairn.foo bar",
    "cairn.foo-bar",
    'a."',
    "a.\\",
    "a.\x00",
    "a.b\n",
    LONE,
    None,
    5,
)
TAGS = (
    5,
    "a.b",
    [("a.b", "c")],
    {"a.b": 5},
    {5: "x"},
    {"a.b": LONE},
    {"a.b": None},
    {f"a.t{n}": "" for n in range(65)},
    {f"a.t{n}": "" for n in range(10_000)},
    {"a.b": "x" * 16_385},
)
UUIDS = ("x", UUID_TEXT, 5, b"x" * 16)
PAYLOADS = ("text", 5, [1], {"a": 1}, b"x" * (MAX_PAYLOAD_BYTES + 1))


class Subject:
    """An engine with one execution that waits and one that runs."""

    def __init__(
        self, engine: Engine, ready: ExecutionId, running: ExecutionId, handle: Handle
    ) -> None:
        self.engine, self.ready, self.running, self.handle = engine, ready, running, handle


Call = Callable[[Subject], Awaitable[Any]]
Bad = tuple[str, str, Call]
WHO: dict[str, Any] = {"worker_id": "w1", "worker_instance_id": "i"}


def short(value: Any) -> str:
    text = ascii(value)
    return text if len(text) < 24 else f"{text[:20]}..{len(text)}"


def each(
    method: str, field: str, values: Iterable[Any], call: Callable[[Subject, Any], Awaitable[Any]]
) -> Iterator[Bad]:
    for value in values:
        yield f"{method}-{field}-{short(value)}", field, lambda s, value=value: call(s, value)


def fields_of(method: str, make: Callable[..., Any], **bad: Iterable[Any]) -> Iterator[Bad]:
    """One call per field and bad value; `make` fills in the rest."""
    for field, values in bad.items():
        yield from each(
            method,
            field,
            values,
            lambda s, v, field=field: getattr(s.engine, method)(make(s, **{field: v})),
        )
