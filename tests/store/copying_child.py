"""Copies a database and kills itself after a number of reports: SOURCE DESTINATION REPORTS ROWS."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from flowfabric.connect.transfer import copy_database
from flowfabric.store import transfer
from flowfabric.store.transfer import Step
from flowfabric.store.valkey import transfer as valkey_transfer


def main(source: str, destination: str, reports: int, rows: int) -> None:
    left = reports

    def report(_: Step) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    transfer.PAGE_ROWS = rows
    valkey_transfer.LOCK_S, valkey_transfer.ASK_EVERY_S = 0.5, 0.1
    asyncio.run(copy_database(source, destination, report))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
