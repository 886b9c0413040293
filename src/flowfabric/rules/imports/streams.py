"""Output streams: frames, numbered in their order, and summary documents."""

from __future__ import annotations

from collections import Counter, defaultdict
from uuid import UUID

from flowfabric.rules.imports.original import Imported, Original, Row, copied, key_of, known

META, FRAME, SUMMARY = "ff_stream_meta", "ff_stream_frame", "ff_stream_summary"
Stream = tuple[int, UUID, int]
_MODES = ("durable", "summary", "best_effort")
_LIVE = {"best_effort_live": "best_effort", "durable_summary": "summary"}


def import_streams(original: Original, made: Imported) -> None:
    attempts = {(*key_of(row), row["attempt_index"]) for row in made.rows["ff_attempt"]}
    frames: dict[Stream, list[Row]] = defaultdict(list)
    rows = sorted(original.rows(FRAME), key=lambda row: (row["ts_ms"], row["seq"]))
    for row in known(rows, FRAME, made):
        stream = (*key_of(row), row["attempt_index"])
        if stream not in attempts:
            made.left_out(FRAME, stream[1], f"attempt {stream[2]} is not in the database")
            continue
        frames[stream].append(row)
    metas = {(*key_of(row), row["attempt_index"]): row for row in original.rows(META)}
    for stream, several in frames.items():
        _stream(stream, several, metas.pop(stream, None), made)
    for stream in metas:
        made.left_out(META, stream[1], "a stream without a frame")
    for row in original.rows(SUMMARY):
        stream = (*key_of(row), row["attempt_index"])
        if stream not in frames:
            made.left_out(SUMMARY, stream[1], "a document of a stream without a frame")
            continue
        made.add(SUMMARY, {**row, "execution_id": stream[1]})
        meta = next(each for each in made.rows[META] if _key(each) == stream)
        trimmed = max(row["version"] - meta["summary_count"], 0)
        meta["summary_trimmed"] += trimmed
        _count(meta, "summary_count", trimmed)


def _key(row: Row) -> Stream:
    return row["partition_key"], row["execution_id"], row["attempt_index"]


def _count(meta: Row, column: str, more: int) -> None:
    meta[column] += more
    meta["frame_count"] += more


def _stream(stream: Stream, rows: list[Row], meta: Row | None, made: Imported) -> None:
    of_mode: Counter[str] = Counter()
    for number, row in enumerate(rows, 1):
        mode = _LIVE.get(row["mode"], row["mode"])
        if mode not in _MODES:
            made.changed(FRAME, stream[1], f"a frame of mode {mode} is imported as durable")
            mode = "durable"
        of_mode[mode] += 1
        made.add(
            FRAME,
            {
                **copied(row, "partition_key", "attempt_index", "ts_ms", "seq", "fields"),
                "execution_id": stream[1],
                "created_at_ms": row["created_at_ms"],
                "mode": mode,
                "number": number,
                "mode_number": of_mode[mode],
            },
        )
    last = rows[-1]
    kept = {} if meta is None else copied(meta, "ema_rate_hz", "last_append_ts_ms")
    made.add(
        META,
        {
            **copied(last, "partition_key", "attempt_index"),
            "execution_id": stream[1],
            "created_at_ms": rows[0]["created_at_ms"],
            "frame_count": len(rows),
            "total_bytes": sum(len(row["fields"].encode()) for row in rows),
            "last_ts_ms": last["ts_ms"],
            "last_seq": last["seq"],
            "has_durable_frame": int(bool(of_mode["durable"] + of_mode["summary"])),
            "durable_count": of_mode["durable"],
            "summary_count": of_mode["summary"],
            "summary_trimmed": 0,
            "live_count": of_mode["best_effort"],
            **kept,
        },
    )
