"""Alembic's entry: runs the migrations on the connection that `database.py` hands over. No settings of its own."""

from alembic import context

from relgrade_assets.io.database import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
