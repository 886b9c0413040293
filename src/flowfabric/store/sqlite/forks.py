"""A forked child leaves the connections of its parent alone."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

_finalizers: weakref.WeakKeyDictionary[object, weakref.finalize[Any, Any]] = (
    weakref.WeakKeyDictionary()
)


def not_in_children(owner: object, finalizer: weakref.finalize[Any, Any]) -> None:
    """The finalizer of this owner does not run in a forked child.

    A child has none of the threads that held locks at the fork, so it would wait for them forever
    as it exits. SQLite also forbids a child to close a connection of its parent, which freeing it
    would do: the arguments of the finalizer, which hold the connections, get a reference that is
    never given back.
    """
    _finalizers[owner] = finalizer


def _leave_to_parent() -> None:
    for finalizer in list(_finalizers.values()):
        left = finalizer.detach()
        if left is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(left[2]))
    _finalizers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
