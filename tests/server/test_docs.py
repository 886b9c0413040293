"""The pages about the server run: every bash block of a page, in order, in one shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.remote.servers import free_port

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "server.md", *sorted((ROOT / "docs" / "operating").glob("*.md"))]
_BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_STEP = "echo; echo '--- next'\n"


def script_of(page: Path, port: int) -> str:
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    address = f"127.0.0.1:{port}"
    text = _STEP.join(blocks).replace("127.0.0.1:9090", address)
    return f"set -euo pipefail\nset -m\nexport FF_LISTEN_ADDR={address}\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n{text}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    bin_folder = Path(sys.executable).parent
    environ = {k: v for k, v in os.environ.items() if not k.startswith("FF_")} | {"PATH": f"{bin_folder}:{os.environ['PATH']}"}
    script = script_of(page, free_port())
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
