"""Frames as a person reads them, or as one JSON object per line."""

from __future__ import annotations

import json

from rich.console import Console
from rich.text import Text

from flowfabric.cli.flow_view import clean
from flowfabric.model.stream import StreamFrame

RUNNING_TEXT = ("stdout", "delta")
"""Parts of one text: they are joined as they come. Everything else gets a line of its own."""
_BINARY = "base64"
ENDS = {
    "attempt_success": "has ended well",
    "attempt_failure": "has failed",
    "attempt_cancelled": "was cancelled",
    "lease_expired": "has lost its worker",
    "lease_revoked": "was taken from its worker",
    "reclaimed": "was given up for another",
    "expired": "has run out of time",
    "suspension_timeout": "has waited too long",
    "dependency_impossible": "was skipped",
}


def readable(text: str) -> str:
    """Line ends and tabs stay; nothing else may steer a terminal."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join("\t".join(clean(part) for part in line.split("\t")) for line in lines)


def runs_on(frame: StreamFrame) -> bool:
    return (
        frame.fields.get("frame_type") in RUNNING_TEXT
        and frame.mode != "summary"
        and not _is_binary(frame)
    )


def line_of(frame: StreamFrame) -> str:
    """A frame that stands on its own: what it is, and what it says."""
    kind = clean(frame.fields.get("frame_type", ""))
    if frame.mode == "summary":
        kind = f"summary {clean(frame.fields.get('summary_version', '?'))}"
    if _is_binary(frame):
        return f"[{kind}] {len(frame.payload):,} bytes that are not text"
    return f"[{kind}] {readable(frame.fields.get('payload', '')).rstrip()}"


def _is_binary(frame: StreamFrame) -> bool:
    return frame.fields.get("encoding") == _BINARY


class Printer:
    """Frames go to one place, what is said about them to another: the text alone can be kept in a file."""

    def __init__(self, out: Console, notes: Console, *, as_json: bool) -> None:
        self._out, self._notes, self._as_json = out, notes, as_json
        self._attempt: int | None = None
        self._mid_line = False

    def frame(self, attempt: int, frame: StreamFrame) -> None:
        if self._as_json:
            self._write(
                json.dumps({"attempt": attempt, "id": frame.id, "fields": frame.fields}) + "\n"
            )
            return
        if self._attempt not in (None, attempt):
            self.note(f"attempt {attempt} begins")
        self._attempt = attempt
        if runs_on(frame):
            self._write(readable(frame.fields.get("payload", "")))
            return
        self._end_line()
        style = "red" if frame.fields.get("frame_type") == "stderr" else "cyan"
        self._out.print(Text(line_of(frame), style), highlight=False, soft_wrap=True)
        self._out.file.flush()

    def closing(self, attempt: int, closed_at: int | None, closed_reason: str | None) -> None:
        if self._as_json:
            said = {"attempt": attempt, "closed_at": closed_at, "closed_reason": closed_reason}
            self._write(json.dumps(said) + "\n")
        elif closed_reason is not None:
            self.note(
                f"attempt {attempt} {ENDS.get(closed_reason, 'has ended')} ({clean(closed_reason)})"
            )

    def still(self, state: str) -> None:
        """There is no more to show, and that was not the end of an attempt."""
        if not self._as_json:
            self.note(f"the execution is {state}")

    def note(self, text: str) -> None:
        self._end_line()
        self._notes.print(Text(text, "dim"), highlight=False, soft_wrap=True)

    def _end_line(self) -> None:
        if self._mid_line:
            self._write("\n")

    def _write(self, text: str) -> None:
        self._out.file.write(text)
        self._out.file.flush()
        self._mid_line = not self._as_json and (not text.endswith("\n") if text else self._mid_line)
