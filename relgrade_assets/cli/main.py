"""The entry point. The commands are listed in `app.py` and loaded when they are called."""

from relgrade_assets.cli.app import app, main

__all__ = ["app", "main"]

if __name__ == "__main__":
    main()
