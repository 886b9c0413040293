"""Which other processes listen. The notifications of a single process have no receiver."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

Word = Literal["", "hello", "here", "look", "bye"]
ANSWER_S = 1.0
"""A process without an answer for so long is alone, until it receives something."""
MAY_HAVE_MISSED: tuple[Word, ...] = ("hello", "look")
"""A sender of these words may have committed something without notifying others."""


class Presence:
    """Each process sends `hello` when it begins to listen, and the others answer `here`.

    A process that assumed to be the only one and receives a word sends `look`, since it may have
    left out notifications. A late answer is harmless: its sender was too busy to receive anything.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._others: set[str] = set()
        self.alone_from = math.inf

    @property
    def others_may_listen(self) -> bool:
        return bool(self._others) or self._clock() < self.alone_from

    def begin(self) -> Word:
        """The word to send when listening begins, also after an interruption."""
        self.alone_from = self._clock() + ANSWER_S
        return "hello"

    def receive(self, sender: str, word: str) -> Word:
        """The word to answer with, if any. Every message shows that its sender is present."""
        if word == "bye":
            self._others.discard(sender)
            return ""
        was_alone = not self.others_may_listen
        self._others.add(sender)
        if was_alone:
            return "look"
        return "here" if word == "hello" else ""
