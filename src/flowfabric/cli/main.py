"""The entry point of the `flowfabric` command."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from flowfabric.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit("The command needs two more libraries: pip install 'flowfabric[cli]'")
    app()


if __name__ == "__main__":
    main()
