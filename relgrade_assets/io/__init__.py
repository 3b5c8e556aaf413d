"""Readers, writers, stores and the ledger: all that touches disk, database and clock. No Dagster."""
