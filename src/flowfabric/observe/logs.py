"""Log lines as JSON on stderr, filtered by FF_LOG, with credentials redacted."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TextIO

from flowfabric.errors import ConfigError

VARIABLE = "FF_LOG"
AUDIT = "audit"
REDACTED = "[redacted]"
OFF = logging.CRITICAL + 10
LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "off": OFF,
}
_HIDDEN_NAMES = (
    r"\w*lease_id|\w*token|\w*secret\w*|password|passwd|api_key|authorization|cookie|handle|"
    r"opaque|fence"
)
_SECRET = re.compile(rf"({_HIDDEN_NAMES})\Z", re.IGNORECASE)
_NAMED_SECRET = re.compile(
    rf"\b({_HIDDEN_NAMES})(['\"]?\s*[=:]\s*)(\w+\([^)]*\)|b?'[^']*'|b?\"[^\"]*\"|[^\s,;)}}\]]+)",
    re.IGNORECASE,
)
_PATTERNS = (
    (re.compile(r"[\w.+-]+:[0-9a-fA-F]{64}\b"), REDACTED),  # a waitpoint token
    (re.compile(r"\b(Bearer|Basic)\s+\S+", re.IGNORECASE), rf"\1 {REDACTED}"),
    (re.compile(r"(\w+://[^\s:/@]*):[^\s@]+@"), rf"\1:{REDACTED}@"),
)
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One object per record: ts, level, logger, message, `extra` fields, traceback as `error`."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "ts": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        line |= {name: value for name, value in extra_fields(record).items() if name not in line}
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = redact(self.formatException(record.exc_info))
        return json.dumps(line, default=str)


def extra_fields(record: logging.LogRecord) -> dict[str, object]:
    """The `extra` fields of a record, redacted."""
    return redact_fields({k: v for k, v in vars(record).items() if k not in _STANDARD})


def redact(text: str) -> str:
    """Replace tokens, lease ids, passwords and the like, found by their form or their name."""
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return _NAMED_SECRET.sub(rf"\1\2{REDACTED}", text)


def redact_fields(fields: Mapping[str, object]) -> dict[str, object]:
    return {str(name): redact_value(str(name), value) for name, value in fields.items()}


def redact_value(name: str, value: object) -> object:
    """The value of a field for JSON, redacted if the name or the text indicates a secret."""
    if _SECRET.match(name) or isinstance(value, bytes | bytearray | memoryview):
        return REDACTED
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return redact_fields(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [redact_value("", each) for each in value]
    return redact(str(value))


def parse_levels(spec: str) -> dict[str, int]:
    """Levels by logger of a spec such as `info,flowfabric.worker=debug`; `""` is the default."""
    levels = {"": logging.INFO, AUDIT: logging.INFO}
    for part in filter(None, (each.strip() for each in spec.split(","))):
        name, _, level = part.rpartition("=")
        if level.lower() not in LEVELS:
            raise ConfigError(
                f"{VARIABLE}: {part!r}: expected a level or logger=level; "
                f"levels are {', '.join(LEVELS)}"
            )
        levels[name.strip()] = LEVELS[level.lower()]
    return levels


def log_to_stderr(spec: str | None = None, stream: TextIO | None = None) -> logging.Handler:
    """Configure the logging of this process by `spec`, by default FF_LOG, else `info`.

    The logger `audit` is enabled at every level; `audit=off` disables it.
    """
    levels = parse_levels(os.environ.get(VARIABLE, "") if spec is None else spec)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    root = logging.getLogger()
    for old in [each for each in root.handlers if isinstance(each.formatter, JsonLines)]:
        root.removeHandler(old)
    root.addHandler(handler)
    return handler
