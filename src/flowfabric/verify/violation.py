"""The result of a check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.verify.snapshot import Key, Snapshot, StreamKey

P = ParamSpec("P")


class Violation(Struct, frozen=True):
    invariant: str
    subject: str
    says: str


Check = Callable[[Snapshot], Iterator[Violation]]
Subject = Key | StreamKey | str
Finding = tuple[Subject, str] | tuple[Subject, str, str]
"""An execution, an attempt or a name; what is wrong; and the invariant, if it is another one."""


def _violation(code: str, finding: Finding) -> Violation:
    subject = finding[0]
    if not isinstance(subject, str):
        attempt = f" attempt {subject[2]}" if len(subject) == 3 else ""
        subject = f"{ExecutionId.of(subject[0], subject[1])}{attempt}"
    return Violation(finding[2] if len(finding) == 3 else code, subject, finding[1])


def invariant(
    code: str,
) -> Callable[[Callable[P, Iterator[Finding]]], Callable[P, Iterator[Violation]]]:
    """A check whose findings are violations of one invariant."""

    def decorate(find: Callable[P, Iterator[Finding]]) -> Callable[P, Iterator[Violation]]:
        @wraps(find)
        def check(*args: P.args, **kwargs: P.kwargs) -> Iterator[Violation]:
            return (_violation(code, each) for each in find(*args, **kwargs))

        return check

    return decorate
