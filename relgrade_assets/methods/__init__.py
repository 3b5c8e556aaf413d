"""Pure functions from tables to tables: no Dagster, no disk, no clock, no network."""
