"""Commands run in the process of the test, for tests that replace a part of what a command uses."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from flowfabric.cli.app import app
from flowfabric.cli.exits import run_command


def flowfabric_here(*args: str) -> subprocess.CompletedProcess[str]:
    """What `flowfabric ...` prints, and its exit code."""
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["flowfabric", *args]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = run_command(app)
    return subprocess.CompletedProcess(args, code, out.getvalue(), err.getvalue())
