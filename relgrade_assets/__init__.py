"""relgrade: a retrieval answer key that can be trusted, made as a Dagster asset graph.

Nothing is imported here: `relgrade score` and the measures start fast because of it.
"""

__version__ = "0.1.0"
