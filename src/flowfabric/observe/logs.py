"""Log lines as JSON on stderr, filtered by FF_LOG, and without anything that opens a door."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

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
_KEPT_BACK = r"\w*lease_id|\w*token|\w*secret\w*|password|passwd|api_key|authorization|cookie|handle|opaque|fence"
_SECRET = re.compile(rf"({_KEPT_BACK})\Z", re.IGNORECASE)
_NAMED = re.compile(
    rf"\b({_KEPT_BACK})(['\"]?\s*[=:]\s*)(\w+\([^)]*\)|b?'[^']*'|b?\"[^\"]*\"|[^\s,;)}}\]]+)",
    re.IGNORECASE,
)
_PATTERNS = (
    (re.compile(r"[\w.+-]+:[0-9a-fA-F]{64}\b"), REDACTED),  # a waitpoint token
    (re.compile(r"\b(Bearer|Basic)\s+\S+", re.IGNORECASE), rf"\1 {REDACTED}"),
    (re.compile(r"(\w+://[^\s:/@]*):[^\s@]+@"), rf"\1:{REDACTED}@"),
)
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One object for each record: ts, level, logger, message, what was given as `extra`, and the traceback as `error`."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redacted(record.getMessage()),
        }
        said |= {name: value for name, value in extras(record).items() if name not in said}
        if record.exc_info and record.exc_info[0] is not None:
            said["error"] = redacted(self.formatException(record.exc_info))
        return json.dumps(said, default=str)


def extras(record: logging.LogRecord) -> dict[str, Any]:
    """What else a record has to say, fit to be read."""
    return {
        name: shown(name, value) for name, value in vars(record).items() if name not in _STANDARD
    }


def redacted(text: str) -> str:
    """Without tokens, lease ids, passwords and the like, as far as they can be told by how they look or what they are called."""
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return _NAMED.sub(rf"\1\2{REDACTED}", text)


def shown(name: str, value: Any) -> Any:
    """A value of this name as JSON has it; redacted if its name says so, and wherever it looks like a secret."""
    if _SECRET.match(name) or isinstance(value, bytes | bytearray | memoryview):
        return REDACTED
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): shown(str(key), each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [shown("", each) for each in value]
    return redacted(str(value))


def parsed(spec: str) -> dict[str, int]:
    """`info,flowfabric.worker=debug` as levels by logger; the one without a name is for all others, `""`."""
    levels = {"": logging.INFO, AUDIT: logging.INFO}
    for part in filter(None, (each.strip() for each in spec.split(","))):
        name, _, level = part.rpartition("=")
        if level.lower() not in LEVELS:
            raise ConfigError(
                f"{VARIABLE}: {part!r}: a level or logger=level; levels are {', '.join(LEVELS)}"
            )
        levels[name.strip()] = LEVELS[level.lower()]
    return levels


def log_to_stderr(spec: str | None = None, stream: TextIO | None = None) -> logging.Handler:
    """Takes the logging of this process over. Without `spec`, the variable FF_LOG says what is wanted, or else `info`.

    The logger `audit` stays on whatever the rest is set to; `audit=off` turns it off.
    """
    levels = parsed(os.environ.get(VARIABLE, "") if spec is None else spec)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    root = logging.getLogger()
    for old in [each for each in root.handlers if isinstance(each.formatter, JsonLines)]:
        root.removeHandler(old)
    root.addHandler(handler)
    return handler
