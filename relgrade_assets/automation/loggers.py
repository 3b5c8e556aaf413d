"""How a run tells the terminal what it is doing: the step at work, on one line that goes when the run ends. For the
CLI; the UI has its own log.
"""

import logging
import os
import sys

import dagster as dg

_ENDS = ("PIPELINE_SUCCESS", "PIPELINE_FAILURE", "PIPELINE_CANCELED")
_BACK = "\r\033[K"


class _StepLine(logging.Handler):
    """Writes to the terminal itself: while a step is at work Dagster takes standard error into its own files."""

    def __init__(self) -> None:
        super().__init__()
        there = sys.stderr.isatty()
        self._terminal = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8") if there else None

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "dagster_meta", {}).get("dagster_event")
        if event is None or self._terminal is None:
            return
        if event.event_type_value == "STEP_START":
            self._terminal.write(f"{_BACK}{event.step_key} ...")
            self._terminal.flush()
        elif event.event_type_value in _ENDS:
            self._terminal.write(_BACK)
            self._terminal.close()
            self._terminal = None


@dg.logger(config_schema={}, description="One line on the terminal, telling the step at work.")
def progress(context: dg.InitLoggerContext) -> logging.Logger:
    """A logger that shows the step at work and keeps quiet otherwise."""
    logger = logging.Logger("relgrade.progress", logging.DEBUG)
    logger.addHandler(_StepLine())
    return logger
