"""The entry point: importing the command modules registers their commands. Nothing else is here."""

from relgrade_assets.cli import experiments, graph, people, replay  # noqa: F401
from relgrade_assets.cli.app import app, main

__all__ = ["app", "main"]

if __name__ == "__main__":
    main()
