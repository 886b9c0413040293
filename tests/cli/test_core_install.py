"""What the core install has: a command, and a library that does not import what only it needs."""

from __future__ import annotations

import socket
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CORE = {"cronsim", "msgspec", "rich", "typer", "tzdata"}
EXTRAS = (
    "asyncpg",
    "httptools",
    "starlette",
    "uvicorn",
    "uvloop",
    "prometheus_client",
    "sentry_sdk",
)


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def test_the_command_is_in_the_core_under_two_names() -> None:
    names = {text.partition(">")[0] for text in PROJECT["dependencies"]}
    assert names == CORE
    assert PROJECT["scripts"] == dict.fromkeys(("flowfabric", "ff"), "flowfabric.cli.main:main")


def test_the_library_imports_nothing_of_the_command() -> None:
    code = "import flowfabric, sys; print({'typer', 'rich'} & set(sys.modules))"
    assert run(code) == "set()"


def test_the_command_imports_no_extra() -> None:
    blocked = "; ".join(f"sys.modules[{name!r}] = None" for name in EXTRAS)
    code = f"import sys; {blocked}; sys.argv = ['ff', '-h']; from flowfabric.cli.main import main"
    shown = run(f"{code}\ntry:\n    main()\nexcept SystemExit as end:\n    print(end.code)")
    assert shown.startswith("Usage: ff")
    assert shown.endswith("0")


def test_a_missing_library_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        told = run(_listing(server.getsockname()[1]))
    assert "pip install 'flowfabric[http]'" in told


def _listing(port: int) -> str:
    return (
        "import sys; sys.modules['httptools'] = None; "
        f"sys.argv = ['ff', 'list', '--db', 'http://127.0.0.1:{port}']\n"
        "from flowfabric.cli.main import main\n"
        "sys.stderr = sys.stdout\n"
        "try:\n    main()\nexcept SystemExit as end:\n    print(end.code)"
    )
