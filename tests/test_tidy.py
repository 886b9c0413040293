"""The repository stays readable: sizes, markers, paths, and documents that run."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import flowfabric
from tests.patience import patience

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
CODE = [
    p
    for folder in ("src", "tests", "benchmarks", "examples", "docs")
    for p in sorted((ROOT / folder).rglob("*.py"))
]
TEXTS = [
    *CODE,
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "Makefile",
    ROOT / "pyproject.toml",
]
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_DEPTH = 3
BANNED = re.compile(
    r"(?i)\b(?:whoever|mend(?:ed|s|ing)?|journeys?|hopeful|in the same breath|pens|censuses"
    r"|onlooker)\b"
)
"""Narrative words and private names; `docs/glossary.md` has the words that replace them."""


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_files_stay_short() -> None:
    lines = {_shown(path): len(_text(path).splitlines()) for path in SOURCES}
    assert {name: n for name, n in lines.items() if n > MAX_FILE_LINES} == {}


def test_functions_stay_short() -> None:
    long = [
        f"{_shown(path)}:{node.lineno} {node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(_text(path)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= MAX_FUNCTION_LINES
    ]
    assert long == []


def _found(pattern: str | re.Pattern[str], paths: Iterable[Path]) -> dict[str, list[str]]:
    """The files in which it is found, with what was found."""
    compiled = re.compile(pattern)
    found = {_shown(path): [m[0] for m in compiled.finditer(_text(path))] for path in paths}
    return {name: texts for name, texts in found.items() if texts}


def test_no_leftovers() -> None:
    marker = "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3, "Not" + "ImplementedError"))
    machine = "|".join(f"/{name}/" for name in ("work", "farm", "root"))
    assert _found(rf"\b({marker})\b", TEXTS) == {}
    assert _found(rf"(?<![\w.-])({machine})", TEXTS) == {}


def _bases() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name] = [b.id for b in node.bases if isinstance(b, ast.Name)]
    return found


def test_classes_are_at_most_three_deep() -> None:
    bases = _bases()

    def depth(name: str) -> int:
        known = (base for base in bases[name] if base in bases and base != name)
        return 1 + max(map(depth, known), default=0)

    def is_error(name: str) -> bool:
        return name == "FlowFabricError" or any(map(is_error, set(bases[name]) & bases.keys()))

    deep = {name: depth(name) for name in bases if not is_error(name) and depth(name) > MAX_DEPTH}
    assert deep == {}


def test_prose_is_in_the_words_of_the_field() -> None:
    """This file names the words it refuses."""
    assert _found(BANNED, [path for path in TEXTS if path != Path(__file__)]) == {}


def test_files_that_documents_name_exist() -> None:
    places = (ROOT, ROOT / "src" / "flowfabric")
    folders = "|".join(each.name for place in places for each in place.iterdir() if each.is_dir())
    documents = [path for path in TEXTS if path.suffix == ".md"]
    named = _found(rf"(?<=`)(?:{folders})/[\w./-]+(?=`)", documents)
    assert sum(map(len, named.values())) > 50
    missing = {
        (document, name)
        for document, names in named.items()
        for name in names
        if not any((place / name).exists() for place in places)
    }
    assert missing == set()


def test_digests_and_tokens_are_not_compared_with_equals() -> None:
    assert _found(r"(digest|hmac|signature)\w*\s*(==|!=)", SOURCES) == {}


def test_the_public_surface_is_sorted_and_there() -> None:
    assert sorted(flowfabric.__all__) == flowfabric.__all__
    assert all(hasattr(flowfabric, name) for name in flowfabric.__all__)


def test_no_lock_files() -> None:
    banned = {
        "uv.lock",
        "poetry.lock",
        "package-lock.json",
        "yarn.lock",
        "pnpm-lock.yaml",
        "Pipfile.lock",
    }
    assert not [p for p in ROOT.iterdir() if p.name in banned]


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=_shown)
def test_examples_run(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_shows_the_examples(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    quickstart, engine = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert (
        (ROOT / "examples" / "quickstart.py")
        .read_text(encoding="utf-8")
        .endswith(f'"""\n\n{quickstart}')
    )
    shown = re.search(r"```text\n(.*?)```", readme, re.DOTALL)
    assert shown is not None
    for block, said in ((quickstart, shown[1]), (engine, "b'HELLO'\n")):
        script = tmp_path / "readme.py"
        script.write_text(block, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, str(script)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=patience(60),
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, said), done.stderr


def test_importing_the_package_is_quick_and_quiet() -> None:
    """Light: no command line library, no network, and nothing of schedules before there is one."""
    code = (
        "import sys, flowfabric; "
        "print(sorted({'typer','rich','asyncpg','httpx','hypothesis','cronsim'} & "
        "set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=False,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")
