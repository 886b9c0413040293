"""One store per database in a process, shared by everything that opens the same target."""

from __future__ import annotations

import threading
import weakref
from typing import Unpack

from flowfabric.errors import ConfigError
from flowfabric.store.sqlite.store import SqliteStore, StoreSettings
from flowfabric.store.sqlite.uri import parse_target

_live: weakref.WeakValueDictionary[str, SqliteStore] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def open_store(path: str, **settings: Unpack[StoreSettings]) -> SqliteStore:
    """The open store of this target, or a new one.

    A file that is created here is registered under its canonical path, hence the second parse.
    """
    with _lock:
        target = parse_target(path)
        found = _live.get(target.key)
        if found is None or found.closed:
            found = SqliteStore(target, **settings)
            _live[parse_target(path).key] = found
        for name, wanted in settings.items():
            current = found.settings.get(name, wanted)
            if current != wanted:
                raise ConfigError(
                    f"{path} is open in this process with {name}={current!r}, not {wanted!r}"
                )
        return found.retain()
