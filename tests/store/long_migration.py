"""A migration of steps that exists only in tests, and forks that are killed while they apply it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

BATCH_SIZE = 200
MARK = "t_seen"
INDEX = "ff_t_by_seen"
SQL = f"""-- Counts how often a row was seen: more than once would be a batch applied twice.
-- step: run
ALTER TABLE ff_exec_core ADD COLUMN {MARK} bigint;
-- step: batches ff_exec_core (partition_key, execution_id) {BATCH_SIZE}
UPDATE ff_exec_core SET {MARK} = coalesce({MARK}, 0) + 1 WHERE {{batch}};
-- step: index {INDEX}
CREATE INDEX CONCURRENTLY {INDEX} ON ff_exec_core ({MARK});
-- step: run
UPDATE ff_lane_registry SET registered_by = registered_by;
"""
SQLITE_SQL = SQL.replace(" CONCURRENTLY", "")
WORDS = (
    "CREATE TABLE IF NOT EXISTS ff_migration_progress",
    "ALTER TABLE ff_exec_core",
    "INSERT ff_migration_progress",
    "SELECT '('",
    "UPDATE ff_exec_core",
    "COMMIT",
    "CREATE INDEX",
    "UPDATE ff_lane_registry",
    "INSERT ff_migration_annotation",
    "DELETE FROM ff_migration_progress",
)
"""A fork is killed at a statement that begins with these words."""


def wished(words: str, sql: str) -> bool:
    text = sql.replace("INTO ", "").replace("OR REPLACE ", "").replace(" CONCURRENTLY", "")
    return text.lstrip().upper().startswith(words.upper().replace("INSERT INTO", "INSERT"))


def deaths() -> Iterator[tuple[str, int, str]]:
    """Statement, how many of them come first, and whether it was sent: each step in its turn."""
    for words in WORDS[:2]:
        yield from ((words, 0, "before"), (words, 0, "sent"))
    for words in ("INSERT ff_migration_progress", "SELECT '('", "UPDATE ff_exec_core", "COMMIT"):
        for skip in (0, 3):
            yield from ((words, skip, "before"), (words, skip, "sent"))
    for words in WORDS[6:]:
        yield from ((words, 0, "before"), (words, 0, "sent"))


def forked(work: Callable[[], None]) -> str:
    """Runs in a process of its own; "killed", "done" or its exit status."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
            os._exit(3)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "killed" if os.WTERMSIG(status) == signal.SIGKILL else f"signal {status}"
    return "done" if os.WEXITSTATUS(status) == 0 else f"status {os.WEXITSTATUS(status)}"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
