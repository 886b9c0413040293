"""One store per database in a process: whoever opens the same target again shares it."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from flowfabric.errors import ConfigError
from flowfabric.store.sqlite.store import SqliteStore
from flowfabric.store.sqlite.uri import parse_target

_live: weakref.WeakValueDictionary[str, SqliteStore] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def open_store(path: str, **settings: Any) -> SqliteStore:
    """The live store of this target, or a new one. A file that is created here is known by its canonical path afterwards."""
    with _lock:
        target = parse_target(path)
        found = _live.get(target.key)
        if found is None or found.closed:
            found = SqliteStore(target, **settings)
            _live[parse_target(path).key] = found
        for name, wanted in settings.items():
            if found.asked.get(name, wanted) != wanted:
                raise ConfigError(
                    f"{path} is open in this process with {name}={found.asked[name]!r}, not {wanted!r}"
                )
        return found.retain()
