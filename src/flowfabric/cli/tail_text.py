"""Renders frames as text, or as one JSON object per line."""

from __future__ import annotations

import json

from rich.console import Console
from rich.text import Text

from flowfabric.cli.text import clean
from flowfabric.model.stream import StreamFrame

INLINE_TYPES = ("stdout", "delta")
"""Frame types that are parts of one text. A frame of any other type is a separate line."""
_BINARY = "base64"
CLOSE_REASONS = {
    "attempt_success": "succeeded",
    "attempt_failure": "failed",
    "attempt_cancelled": "was cancelled",
    "lease_expired": "lost its lease",
    "lease_revoked": "lost its lease to an operator",
    "reclaimed": "was reclaimed by another worker",
    "expired": "exceeded its time limit",
    "suspension_timeout": "was suspended too long",
    "dependency_impossible": "was skipped",
}


def readable(text: str) -> str:
    """The text with line ends and tabs, without other control characters."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join("\t".join(clean(part) for part in line.split("\t")) for line in lines)


def is_inline(frame: StreamFrame) -> bool:
    return (
        frame.fields.get("frame_type") in INLINE_TYPES
        and frame.mode != "summary"
        and not _is_binary(frame)
    )


def render_line(frame: StreamFrame) -> str:
    """The line of a frame that is not part of a running text."""
    kind = clean(frame.fields.get("frame_type", ""))
    if frame.mode == "summary":
        kind = f"summary {clean(frame.fields.get('summary_version', '?'))}"
    if _is_binary(frame):
        return f"[{kind}] {len(frame.payload):,} bytes that are not text"
    return f"[{kind}] {readable(frame.fields.get('payload', '')).rstrip()}"


def _is_binary(frame: StreamFrame) -> bool:
    return frame.fields.get("encoding") == _BINARY


class Printer:
    """Writes frames to `out` and remarks to `notes`, so that the output can be redirected alone."""

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
            self.note(f"attempt {attempt} started")
        self._attempt = attempt
        if is_inline(frame):
            self._write(readable(frame.fields.get("payload", "")))
            return
        self._end_line()
        style = "red" if frame.fields.get("frame_type") == "stderr" else "cyan"
        self._out.print(Text(render_line(frame), style), highlight=False, soft_wrap=True)
        self._out.file.flush()

    def closing(self, attempt: int, closed_at: int | None, closed_reason: str | None) -> None:
        if self._as_json:
            line = {"attempt": attempt, "closed_at": closed_at, "closed_reason": closed_reason}
            self._write(json.dumps(line) + "\n")
        elif closed_reason is not None:
            self.note(
                f"attempt {attempt} {CLOSE_REASONS.get(closed_reason, 'ended')} "
                f"({clean(closed_reason)})"
            )

    def state(self, state: str) -> None:
        """Note the state when the output stops before the end of an attempt."""
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
