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
        stream = _stored(row)
        if stream not in attempts:
            made.left_out(FRAME, stream[1], f"attempt {stream[2]} is not in the database")
            continue
        frames[stream].append(row)
    patches = {_stored(row): row["version"] for row in original.rows(SUMMARY)}
    metas = {_stored(row): row for row in original.rows(META)}
    for stream, several in frames.items():
        _stream(stream, several, metas.pop(stream, None), patches.get(stream, 0), made)
    for stream in metas:
        made.left_out(META, stream[1], "a stream without a frame")
    for row in original.rows(SUMMARY):
        stream = _stored(row)
        if stream in frames:
            made.add(SUMMARY, {**row, "execution_id": stream[1]})
        else:
            made.left_out(SUMMARY, stream[1], "a document of a stream without a frame")


def _stored(row: Row) -> Stream:
    return (*key_of(row), row["attempt_index"])


def _stream(
    stream: Stream, rows: list[Row], meta: Row | None, patches: int, made: Imported
) -> None:
    """A document of more patches than there are frames has lost the first ones."""
    kept = sum(_LIVE.get(row["mode"], row["mode"]) == "summary" for row in rows)
    trimmed = max(patches - kept, 0)
    of_mode = Counter(summary=trimmed)
    for number, row in enumerate(rows, trimmed + 1):
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
    rates = {} if meta is None else copied(meta, "ema_rate_hz", "last_append_ts_ms")
    made.add(
        META,
        {
            **copied(last, "partition_key", "attempt_index"),
            "execution_id": stream[1],
            "created_at_ms": rows[0]["created_at_ms"],
            "frame_count": len(rows) + trimmed,
            "total_bytes": sum(len(row["fields"].encode()) for row in rows),
            "last_ts_ms": last["ts_ms"],
            "last_seq": last["seq"],
            "has_durable_frame": int(bool(of_mode["durable"] + of_mode["summary"])),
            "durable_count": of_mode["durable"],
            "summary_count": of_mode["summary"],
            "summary_trimmed": trimmed,
            "live_count": of_mode["best_effort"],
            **rates,
        },
    )
