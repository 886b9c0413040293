"""The specification of schedules: a mark each, moved by the caller that read its current value."""

from __future__ import annotations

from typing import Any, ClassVar

from flowfabric.model.schedule import ScheduleMark, ScheduleMarks
from flowfabric.store.port import Row

from .fleet import Fleet
from .shapes import no

LAST_MS = 2**53 - 1


class Schedules(Fleet):
    tables: ClassVar[tuple[str, ...]] = ("ff_schedule",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.cursors: dict[tuple[str, str], int] = {}
        self.resting: set[tuple[str, str]] = set()

    def begin(self, namespace: str, name: str) -> str:
        no(not namespace or not name, "invalid_input")
        self.cursors.setdefault((namespace, name), self.now)
        return "done"

    def read(self, namespace: str) -> ScheduleMarks:
        no(not namespace, "invalid_input")
        return ScheduleMarks(
            {key[1]: self._mark(key) for key in sorted(self.cursors) if key[0] == namespace},
            self.now,
        )

    def _mark(self, key: tuple[str, str]) -> ScheduleMark:
        return ScheduleMark(*key, self.cursors[key], key in self.resting)

    def move(self, mark: ScheduleMark, cursor_ms: int) -> bool:
        """A paused mark moves too, past the ticks that the pause leaves out."""
        no(not 0 <= cursor_ms <= LAST_MS, "invalid_input")
        key = mark.namespace, mark.name
        if self.cursors.get(key) != mark.cursor_ms:
            return False
        self.cursors[key] = cursor_ms
        return True

    def pause(self, namespace: str, name: str) -> bool:
        self.begin(namespace, name)
        was = (namespace, name) in self.resting
        self.resting.add((namespace, name))
        return not was

    def resume(self, namespace: str, name: str) -> bool:
        """Ticks during the pause are dropped; a schedule that was not paused keeps its mark."""
        self.begin(namespace, name)
        if (namespace, name) not in self.resting:
            return False
        self.resting.discard((namespace, name))
        self.cursors[namespace, name] = self.now
        return True


def schedule_differences(spec: Schedules, tables: dict[str, list[Row]]) -> list[str]:
    wanted = sorted(
        (*key, cursor, int(key in spec.resting)) for key, cursor in spec.cursors.items()
    )
    found = sorted(tuple(row) for row in tables["ff_schedule"])
    return [] if wanted == found else [f"schedules: specified {wanted}, stored {found}"]
