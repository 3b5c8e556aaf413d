"""Prompts and attempts of model graders, append-only like the rest (P20-P23)."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TABLES = ("prompts", "attempts")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the two tables, and the triggers that refuse changes."""
    op.create_table(
        "prompts",
        *_whose(),
        *_texts("prompt_digest", "nonce", "query_id", "chunk_ids", "template", "at"),
        sa.UniqueConstraint("prompt_digest", name="one_prompt_a_digest"),
    )
    op.create_index("prompts_of_grader", "prompts", ["experiment", "round", "grader"])
    op.create_table(
        "attempts",
        *_whose(),
        *_texts("prompt_digest"),
        sa.Column("attempt", sa.Integer, nullable=False),
        *_texts("command", "version", "model", "started"),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("exit_status", sa.Integer),
        *_texts("outcome", "reason", "raw", "raw_digest"),
        sa.UniqueConstraint("prompt_digest", "attempt", name="one_attempt_a_number"),
        sa.CheckConstraint(
            "outcome IN ('accepted', 'refused', 'timeout', 'crashed', 'interrupted', 'exhausted')",
            name="known_outcome",
        ),
    )
    op.create_index("attempts_of_grader", "attempts", ["experiment", "round", "grader"])
    _append_only()


def downgrade() -> None:
    """The ledger is append-only: there is no way back."""
    raise NotImplementedError


def _whose() -> list[sa.Column[object]]:
    return [
        sa.Column("id", ID, primary_key=True),
        *_texts("experiment"),
        sa.Column("round", sa.Integer, nullable=False),
        *_texts("grader"),
    ]


def _texts(*names: str) -> list[sa.Column[object]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _append_only() -> None:
    for table in TABLES:
        if op.get_bind().dialect.name == "sqlite":
            for change in ("UPDATE", "DELETE"):
                op.execute(
                    f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
                    f"BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: no {change} on {table}'); END"
                )
        else:
            op.execute(
                f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
                "FOR EACH STATEMENT EXECUTE FUNCTION relgrade_append_only()"
            )
