"""The entry point of the `flowfabric` command, also installed as `ff`."""

from __future__ import annotations

import sys


def main() -> None:
    from flowfabric.cli.app import app
    from flowfabric.cli.exits import run_command

    sys.exit(run_command(app))


if __name__ == "__main__":
    main()
