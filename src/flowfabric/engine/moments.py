"""Moments that idle pollers share, so that their reads share round trips."""

from __future__ import annotations

MOMENTS = 4
"""The moments in the longest time between two polls."""


def moment_before(due: float, every_s: float, now: float) -> float:
    """The last shared moment up to `due`, or `due` if there is none after `now`."""
    moment = due - due % (every_s / MOMENTS)
    return moment if moment > now else due
