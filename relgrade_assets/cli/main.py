"""The entry point. `relgrade score` starts without the command line's library; every other command, help and mistakes
are app.py's."""

from __future__ import annotations

import gc
import os
import sys

from relgrade_assets.cli.terminal import told_to_people


def main() -> None:
    """Run the command line; a refusal is printed whole on standard error and exits with 2, waiting with 3."""
    with told_to_people():
        if not _plainly(sys.argv[1:]):
            from relgrade_assets.cli.app import app

            app(prog_name="relgrade")


def _plainly(words: list[str]) -> bool:
    """Run `relgrade score`, where its words are plain; False where the library must read them."""
    if words[:1] != ["score"]:
        return False
    # Scoring multiplies no large matrices: numpy need not start threads for them, which takes as long again.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # loading makes no garbage, and looking for it takes a tenth of the start
    from relgrade_assets.cli.plain_call import plain_arguments
    from relgrade_assets.cli.score import score

    gc.enable()
    given = plain_arguments(score, words[1:])
    if given is not None:
        score(**given)
    return given is not None


if __name__ == "__main__":
    main()
