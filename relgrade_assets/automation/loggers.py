"""How a run tells the terminal what it is doing: a line when a table is made or waits. For the CLI; the UI has its
own log.
"""

import logging
import sys

import dagster as dg


class _StepLines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "dagster_meta", {}).get("dagster_event")
        if event is not None and event.event_type_value == "STEP_START" and "." not in str(event.step_key):
            if sys.stderr.isatty():
                print(f"\r\033[K{event.step_key} ...", end="", file=sys.stderr, flush=True)
        elif event is not None and event.event_type_value in ("RUN_SUCCESS", "RUN_FAILURE") and sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


@dg.logger(config_schema={}, description="One line on the terminal, telling the step at work.")
def progress(context: dg.InitLoggerContext) -> logging.Logger:
    """A logger that shows the step at work and keeps quiet otherwise."""
    logger = logging.Logger("relgrade.progress", logging.DEBUG)
    logger.addHandler(_StepLines())
    return logger
