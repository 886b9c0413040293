"""The person in front of the terminal."""

from __future__ import annotations

import getpass


def current_user() -> str:
    """The user of this process; empty where the machine does not know. A server records the name
    of the caller's token instead.
    """
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
