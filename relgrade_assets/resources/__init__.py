"""Dagster's wrappers of io: studies and the store of tables."""
