"""`flowfabric flow`: output, files, errors, and no writes."""

from __future__ import annotations

import asyncio
import io
import re
import sqlite3
from itertools import pairwise
from pathlib import Path
from uuid import UUID, uuid4
from xml.etree import ElementTree

import psycopg
import pytest
from rich.console import Console

from flowfabric import CreateExecutionArgs, Engine, ExecutionId
from flowfabric.cli import flow as command
from flowfabric.cli import flow_svg, flow_text, text
from flowfabric.cli.database import Database
from flowfabric.cli.flow_svg import dot
from flowfabric.cli.flow_view import APPEARANCES, clean, view_flow
from flowfabric.connect import PostgresBackend, SqliteBackend, look_at
from flowfabric.errors import ConfigError, NotFound, Unavailable
from flowfabric.ids import FLOW_PARTITIONS, partition_of
from flowfabric.model.flow import (
    AddExecutionToFlowArgs,
    CancelFlowArgs,
    CreateFlowArgs,
    StageDependencyEdgeArgs,
)
from tests.cli.commands import flowfabric, refused
from tests.cli.flows import FLOW, NASTY, complete, race, submit
from tests.postgres import database


async def told(engine: Engine, flow: UUID = FLOW, width: int = 100, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    await command.draw(engine, flow, Console(file=file, width=width))
    file.flush()
    return raw.getvalue().decode(encoding)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "flows.db"


async def filled(path: Path) -> None:
    async with await SqliteBackend.new(str(path), dev=True) as engine:
        await race(engine)


# ---- the picture


async def test_an_any_of_race_is_drawn(engine: Engine) -> None:
    await race(engine)
    said = await told(engine)
    assert f"flow {FLOW}\n" in said
    assert "✔ 1 completed  ○ 1 waiting  ⊘ 2 cancelled" in said
    assert "╭ any of 3: 1✔ 2✖ ╮" in said
    assert re.search(r"▶│ ○ after +│", said)
    assert said.count("│ cancelled") == 2


async def test_states_have_distinct_symbols() -> None:
    assert len({seen.symbol for seen in APPEARANCES.values()}) == len(APPEARANCES)
    assert len({seen.plain for seen in APPEARANCES.values()}) == len(APPEARANCES)
    assert all(seen.plain.isascii() for seen in APPEARANCES.values())


async def test_too_wide_is_drawn_smaller_and_then_listed(sqlite: SqliteBackend) -> None:
    chain = ["first", "second", "third", "fourth"]
    await submit(sqlite, chain, pairwise(chain))
    wide, small, narrow = (
        await told(sqlite),
        await told(sqlite, width=60),
        await told(sqlite, width=40),
    )
    assert "│ waiting children │" in wide
    assert "╭" in small and "waiting children │" not in small
    assert "╭" not in narrow
    assert re.search(r"3 +fourth +… waiting +third", narrow)


async def test_plain_ascii_where_nothing_else_arrives(sqlite: SqliteBackend) -> None:
    await race(sqlite)
    said = await told(sqlite, encoding="ascii")
    assert said.isascii()
    assert re.search(r"after +o waiting +any of 3: 1\+ 2x", said)


async def test_a_large_flow_is_counted_layer_by_layer(sqlite: SqliteBackend) -> None:
    wide = [f"work#{at}" for at in range(40)]
    tail = [f"tail#{at}" for at in range(25)]
    edges = (
        [("start", each) for each in wide]
        + [(each, tail[0]) for each in wide]
        + list(pairwise(tail))
    )
    await submit(sqlite, ["start", *wide, *tail], edges)
    await complete(sqlite, 1)
    await complete(sqlite, 10)
    said = await told(sqlite)
    assert "│" not in said
    rows = [line.split() for line in said.splitlines()[4:]]
    assert rows == [["0", "1", "1"], ["1", "40", "10", "30"], ["2-26", "1", "each", "1"]]


async def test_many_layers_are_cut_short(sqlite: SqliteBackend) -> None:
    nodes, edges = [], []
    for at in range(70):
        layer = [f"n#{at}.{each}" for each in range(1 + at % 2)]
        edges += [(up, down) for up in nodes[-1:] for down in layer]
        nodes += layer
    await submit(sqlite, nodes, edges)
    said = await told(sqlite)
    assert len(said.splitlines()) == 4 + flow_text.MAX_LAYER_ROWS + 1
    assert said.splitlines()[-1].split() == ["more", "15"]


async def test_an_empty_flow_and_one_that_is_built_by_hand(sqlite: SqliteBackend) -> None:
    await sqlite.create_flow(CreateFlowArgs(flow_id=FLOW))
    assert "open · namespace default · 0 nodes" in await told(sqlite)
    at = partition_of(FLOW, FLOW_PARTITIONS)
    a, b = (ExecutionId.of(at, uuid4()) for _ in range(2))
    for ident in (a, b):
        await sqlite.create_execution(CreateExecutionArgs(execution_id=ident))
        await sqlite.add_execution_to_flow(AddExecutionToFlowArgs(flow_id=FLOW, execution_id=ident))
    await sqlite.stage_dependency_edge(
        StageDependencyEdgeArgs(
            flow_id=FLOW,
            edge_id=uuid4(),
            upstream_execution_id=a,
            downstream_execution_id=b,
            expected_graph_revision=2,
        )
    )
    said = await told(sqlite)
    assert f"○ {a.uuid.hex[-6:]}" in said and f"▶│ ○ {b.uuid.hex[-6:]}" in said
    assert "style=dotted" in dot(await view_flow(sqlite, FLOW))


async def test_a_cancelled_flow_shows_its_reason(sqlite: SqliteBackend) -> None:
    await submit(sqlite, ["a", "b"], [("a", "b")])
    await sqlite.cancel_flow_header(
        CancelFlowArgs(flow_id=FLOW, reason="wrong [bold]customer[/bold]")
    )
    said = await told(sqlite)
    assert "cancelled · namespace" in said
    assert "cancelled by cancel_all: wrong [bold]customer[/bold]" in said


async def test_members_removed_by_retention_are_shown_as_removed(sqlite: SqliteBackend) -> None:
    node = await submit(sqlite, ["a", "b"], [("a", "b")])
    await complete(sqlite, 1)
    await complete(sqlite, 1)
    await sqlite.project_flow_summary(FLOW)
    await sqlite.store.execute_for_test(
        "DELETE FROM ff_exec_core WHERE execution_id = ?", (node["a"].uuid.bytes,)
    )
    said = await told(sqlite)
    assert f"∅ {node['a'].uuid.hex[-6:]}" in said
    await sqlite.store.execute_for_test("DELETE FROM ff_exec_core")
    assert "completed · namespace default · 2 nodes" in await told(sqlite)


# ---- what leaves the terminal


async def test_nothing_a_user_wrote_breaks_out(sqlite: SqliteBackend) -> None:
    await submit(sqlite, [NASTY, "b"], [(NASTY, "b")], namespace=NASTY, flow_kind=NASTY)
    await sqlite.cancel_flow_header(CancelFlowArgs(flow_id=FLOW, reason=NASTY))
    view = await view_flow(sqlite, FLOW)
    assert "\x1b" not in await told(sqlite)
    tree = ElementTree.fromstring(flow_svg.svg(view))
    texts = [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert next(iter(view.nodes.values())).label in texts
    assert not list(tree.iter("{http://www.w3.org/2000/svg}b"))
    outside = re.sub(r'"(?:[^"\\\n]|\\.)*"', "", dot(view))
    assert set(re.findall(r"[a-zA-Z]+", outside)) <= DOT_WORDS


DOT_WORDS = {"digraph", "rankdir", "LR", "label", "node", "shape", "box", "style"}
DOT_WORDS |= {"rounded", "fontname", "color", "solid", "dashed"}


def test_clean_removes_control_characters() -> None:
    assert clean("größe 数据") == "größe 数据"
    assert clean("a\x1b[2Jb\u202ec\ud800") == "a\ufffd[2Jb\ufffdc\ufffd"


async def test_the_svg_has_every_node_and_edge_inside_its_frame(sqlite: SqliteBackend) -> None:
    await race(sqlite)
    tree = ElementTree.fromstring(flow_svg.svg(await view_flow(sqlite, FLOW)))
    name = "{http://www.w3.org/2000/svg}"
    boxes = [r for r in tree.iter(f"{name}rect") if "box" in (r.get("class") or "")]
    edges = [p for p in tree.iter(f"{name}path") if "edge" in (p.get("class") or "").split()]
    assert (len(boxes), len(edges)) == (4, 3)
    wide, high = float(tree.get("width") or 0), float(tree.get("height") or 0)
    for box in boxes:
        x, y, width, height = (float(box.get(side) or 0) for side in ("x", "y", "width", "height"))
        assert x > 0 and y > 0 and x + width < wide and y + height < high
    assert [e.get("class") for e in edges].count("edge s-completed") == 1
    assert (tree.findtext(f"{name}title") or "").startswith(f"flow {FLOW}")
    style = tree.findtext(f"{name}style") or ""
    assert "prefers-color-scheme:dark" in style and "http" not in style


async def test_the_svg_of_a_huge_flow_is_refused(
    sqlite: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    await race(sqlite)
    monkeypatch.setattr(flow_svg, "MAX_NODES", 3)
    with pytest.raises(ConfigError, match="at most 3 nodes, this flow has 4; use --dot"):
        flow_svg.svg(await view_flow(sqlite, FLOW))


# ---- the command


def test_show_and_list_as_a_user_runs_them(path: Path, tmp_path: Path) -> None:
    asyncio.run(filled(path))
    before = path.read_bytes()
    shown = flowfabric("flow", "show", str(FLOW), "--db", str(path))
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "any of 3: 1✔ 2✖" in shown.stdout and str(FLOW) in shown.stdout
    listed = flowfabric("flow", "list", f"sqlite:///{path}")
    assert re.search(rf"{FLOW} +open +20..-..-.. ..:.. +4\n", listed.stdout), listed.stdout
    assert flowfabric("flow", "show", str(FLOW), str(path), "--dot").stdout.startswith(
        f'digraph "{FLOW}" {{\n'
    )
    picture = flowfabric("flow", "show", str(FLOW), str(path), "--svg").stdout
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    file = tmp_path / "flow.svg"
    written = flowfabric("flow", "show", str(FLOW), str(path), "--svg", str(file))
    assert (written.returncode, file.read_text(encoding="utf-8")) == (0, picture)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["flow.svg", "flows.db"]


async def test_a_database_in_use_is_readable(path: Path) -> None:
    async with await SqliteBackend.new(str(path), dev=True) as engine:
        await race(engine)
        assert "any of 3" in flowfabric("flow", "show", str(FLOW), "--db", str(path)).stdout
        await complete(engine, 1)
        assert "✔ 2 completed" in flowfabric("flow", "show", str(FLOW), "--db", str(path)).stdout


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("show", "twelve", "--db", "DB"), "flow id: expected a UUID such as"),
        (("show", "0" * 30 + "_0", "--db", "DB"), "flow id: expected a UUID such as"),
        (
            ("show", "00000000-0000-4000-8000-000000000000", "--db", "DB"),
            "00000000-0000-4000-8000-000000000000: no such flow",
        ),
        (("show", str(FLOW), "--db", "nowhere.db"), "nowhere.db: no such database file"),
        (("list", "--db", "nowhere.db"), "nowhere.db: no such database file"),
        (("list", "--db", "memory://"), "memory:// is visible to its own process only"),
        (("list", "--db", "mysql://there"), "not supported"),
        (("list", "--db", "OTHER"), "not a FlowFabric database"),
        (("show", str(FLOW), "--db", "DB", "--dot", "--svg"), "only one of them is accepted"),
        (
            ("show", str(FLOW), "--db", "DB", "--svg", "no/such/folder/x.svg"),
            "cannot write no/such/folder/x.svg: No such file or directory",
        ),
    ],
)
async def test_refusals(path: Path, tmp_path: Path, args: tuple[str, ...], says: str) -> None:
    await filled(path)
    other = tmp_path / "other.db"
    other.write_bytes(b"")
    done = flowfabric(
        "flow", *({"DB": str(path), "OTHER": str(other)}.get(arg, arg) for arg in args)
    )
    refused(done, says)
    assert other.read_bytes() == b""


async def test_flows_are_listed_newest_first_with_a_total(
    sqlite: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    flows = [uuid4() for _ in range(5)]
    for at, flow in enumerate(flows):
        await sqlite.create_flow(
            CreateFlowArgs(flow_id=flow, now=1_700_000_000_000 + at, namespace="shop")
        )
    found, rows = await command.newest_flows(sqlite, 2)
    assert found == 5
    assert [flow.flow_id for flow, _ in rows] == [flows[4], flows[3]]
    path = sqlite.store.target.key
    console = Console(file=io.StringIO(), width=120)
    monkeypatch.setattr(command, "console", console)
    monkeypatch.setattr(text, "console", console)
    assert await asyncio.to_thread(command.list_flows, Database(path), 2) == 0
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "the newest 2 of 5 flows" in said and "namespace" in said and "shop" in said


async def test_a_very_large_flow_is_listed_with_its_stored_summary(
    sqlite: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "MAX_COUNTED", 3)
    await race(sqlite)
    assert [state for _, state in (await command.newest_flows(sqlite, 9))[1]] == ["open"]
    await sqlite.project_flow_summary(FLOW)
    await complete(sqlite, 1)
    assert [state for _, state in (await command.newest_flows(sqlite, 9))[1]] == ["open"]
    monkeypatch.setattr(command, "MAX_COUNTED", 4)
    assert [state for _, state in (await command.newest_flows(sqlite, 9))[1]] == ["completed"]


def test_no_flows(path: Path) -> None:
    async def make() -> None:
        await (await SqliteBackend.new(str(path), dev=True)).close()

    asyncio.run(make())
    assert flowfabric("flow", "list", str(path)).stdout == "no flows\n"


# ---- only looking


async def test_look_at_refuses_to_write_and_leaves_an_older_schema_alone(path: Path) -> None:
    await filled(path)
    engine = await look_at(str(path))
    with pytest.raises(Unavailable, match="opened read-only"):
        await engine.create_flow(CreateFlowArgs(flow_id=uuid4()))
    with pytest.raises(NotFound):
        await view_flow(engine, uuid4())
    await engine.close()
    db = sqlite3.connect(path)
    db.execute("DELETE FROM ff_migration_annotation")
    db.commit()
    db.close()
    engine = await look_at(str(path))
    assert (await view_flow(engine, FLOW)).counts["cancelled"] == 2
    await engine.close()
    db = sqlite3.connect(path)
    assert db.execute("SELECT count(*) FROM ff_migration_annotation").fetchone() == (0,)
    db.close()


async def test_reading_an_unmigrated_and_a_migrated_postgres() -> None:
    url = database("looked_at")
    done = await asyncio.to_thread(flowfabric, "flow", "list", url)
    refused(done, "run `flowfabric migrate --db URL`", 1)
    with psycopg.connect(url) as db:
        assert db.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        ).fetchone() == (0,)
    engine = await PostgresBackend.connect(url, migrate=True)
    await race(engine)
    await engine.close()
    shown = await asyncio.to_thread(flowfabric, "flow", "show", str(FLOW), url)
    assert "any of 3: 1✔ 2✖" in shown.stdout, shown.stdout + shown.stderr
    assert str(FLOW) in (await asyncio.to_thread(flowfabric, "flow", "list", url)).stdout
