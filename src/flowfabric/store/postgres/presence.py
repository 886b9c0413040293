"""Who else listens. A process that is alone has nobody to tell what it committed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

Word = Literal["", "hello", "here", "look", "bye"]
ANSWER_S = 1.0
"""Who has not been answered for so long is alone, until somebody is heard."""
LOOK_FOR_YOURSELF: tuple[Word, ...] = ("hello", "look")
"""Behind these words stands somebody who may have told nobody what he did."""


class Presence:
    """Each says hello when it begins to listen, and is answered by those that are there.

    Whoever finds that he was not alone says so with `look`, for he may have been silent about something. An answer that is late
    is late because its sender was busy, and would not have heard what was not told.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._others: set[str] = set()
        self._alone_from = math.inf

    @property
    def may_listen(self) -> bool:
        return bool(self._others) or self._clock() < self._alone_from

    def begin(self) -> Word:
        """What to say once one listens, again after every break."""
        self._alone_from = self._clock() + ANSWER_S
        return "hello"

    def hear(self, sender: str, word: str) -> Word:
        """What to answer, if anything. Whatever another says shows that he is there."""
        if word == "bye":
            self._others.discard(sender)
            return ""
        was_alone = not self.may_listen
        self._others.add(sender)
        if was_alone:
            return "look"
        return "here" if word == "hello" else ""
