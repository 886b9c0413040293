"""Exit codes, and the one line on standard error that explains every code but 0."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any

import typer

from flowfabric.cli.text import clean_lines
from flowfabric.errors import (
    ConfigError,
    FlowFabricError,
    NoDatabase,
    NotFound,
    TransportError,
    Unauthorized,
    ValidationError,
    ValidationKind,
)

NAMES = ("flowfabric", "ff")
TRACEBACK_VARIABLE = "FF_TRACEBACK"
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Of the click that typer uses, which may be its own."""


class Exit(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNREACHABLE = 4
    UNAUTHORIZED = 5
    PARTLY_DONE = 6
    INTERRUPTED = 130


class CommandError(FlowFabricError):
    """An error of a command, with its exit code."""

    def __init__(self, code: Exit, text: str) -> None:
        self.code = code
        super().__init__(text)


_USAGE = frozenset({ValidationKind.INVALID_INPUT, ValidationKind.INVALID_TAG_KEY})
_PASSWORD = re.compile(r"(://[^/\s:@]*):[^/\s@]*@|((?:password|token)=)[^&\s'\"]+", re.IGNORECASE)


def code_of(error: BaseException) -> Exit:
    match error:
        case CommandError():
            return error.code
        case Unauthorized() | TransportError(backend_kind="auth"):
            return Exit.UNAUTHORIZED
        case NoDatabase():
            return Exit.UNREACHABLE
        case TransportError():
            return Exit.UNREACHABLE if error.retryable or _is_missing(error) else Exit.FAILED
        case NotFound() | ValidationError(kind=ValidationKind.AMBIGUOUS_ID):
            return Exit.NOT_FOUND
        case ValidationError() if error.kind in _USAGE:
            return Exit.USAGE
        case ConfigError():
            return Exit.USAGE
        case KeyboardInterrupt():
            return Exit.INTERRUPTED
    return Exit.FAILED


def _is_missing(error: TransportError) -> bool:
    return "no such database" in str(error)


def masked(text: str) -> str:
    """The text without passwords and tokens."""
    return _PASSWORD.sub(lambda found: f"{found[1]}:***@" if found[1] else f"{found[2]}***", text)


def print_error(text: str) -> None:
    print(f"error: {masked(clean_lines(text))}", file=sys.stderr)


def refuse_windows(command: str, reason: str) -> None:
    """For commands that need more of the operating system than Windows has."""
    if os.name == "nt":
        raise CommandError(
            Exit.FAILED, f"`flowfabric {command}` does not work on Windows: {reason}"
        )


def run_command(app: Callable[..., object]) -> int:
    """Runs the command line; the exit code."""
    try:
        code = app(standalone_mode=False, prog_name=_program())
        sys.stdout.flush()
    except FlowFabricError as error:
        print_error(str(error))
        return code_of(error)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except typer.Abort:
        print_error("nothing was changed")
        return Exit.FAILED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    except UsageError as error:
        return _usage(error)
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            traceback.print_exc()
        print_error(
            f"unexpected {type(error).__name__}: {error}; "
            f"{TRACEBACK_VARIABLE}=1 prints the traceback, please report it"
        )
        return Exit.FAILED
    return code if isinstance(code, int) else Exit.DONE


def _program() -> str:
    name = Path(sys.argv[0]).stem
    return name if name in NAMES else NAMES[0]


def _usage(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.ctx.get_help() if error.ctx else error.format_message())
        return Exit.USAGE
    where = f"; see `{error.ctx.command_path} --help`" if error.ctx else ""
    print_error(f"{error.format_message().rstrip('.')}{where}")
    return Exit.USAGE
