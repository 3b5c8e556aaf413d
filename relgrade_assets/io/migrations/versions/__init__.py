"""Migrations of the ledger, run by `database.py`; only forms of tables belong here."""
