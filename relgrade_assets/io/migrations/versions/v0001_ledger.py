"""The ledger's first form: answers, refusals, reviews, issued sheets and the event chain, all append-only (P23,
P36).
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = ("answers", "refusals", "reviews", "issued", "events")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
PAIR = ("experiment", "round", "grader", "query_id", "chunk_id")


def upgrade() -> None:
    """Make the tables, the view of current answers, and the triggers that refuse changes."""
    _answers()
    op.create_table(
        "refusals",
        sa.Column("id", ID, primary_key=True),
        *_texts("experiment"),
        sa.Column("round", sa.Integer, nullable=False),
        *_texts("grader", "source"),
        sa.Column("line", sa.BigInteger),
        *_texts("raw", "reason", "at"),
    )
    op.create_index("refusals_of_grader", "refusals", ["experiment", "round", "grader", "source"])
    op.create_table(
        "reviews",
        sa.Column("id", ID, primary_key=True),
        *_texts("experiment", "query_id", "row_digest", "reviewer", "verdict", "note", "at"),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.UniqueConstraint(
            "experiment", "query_id", "row_digest", "reviewer", "revision", name="one_review_a_revision"
        ),
        sa.CheckConstraint("verdict IN ('ok', 'change')", name="known_verdict"),
    )
    op.create_table(
        "issued",
        sa.Column("id", ID, primary_key=True),
        *_texts("experiment"),
        sa.Column("round", sa.Integer, nullable=False),
        *_texts("grader", "sheets_digest", "at"),
    )
    op.create_index("issued_to_grader", "issued", ["experiment", "round", "grader"])
    op.create_table(
        "events",
        sa.Column("experiment", sa.Text, primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        *_texts("at", "kind", "body", "prev", "hash"),
    )
    _append_only()


def downgrade() -> None:
    """The ledger is append-only: there is no way back."""
    raise NotImplementedError


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _answers() -> None:
    op.create_table(
        "answers",
        sa.Column("id", ID, primary_key=True),
        *_texts("experiment"),
        sa.Column("round", sa.Integer, nullable=False),
        *_texts("grader", "query_id", "chunk_id"),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("grade", sa.SmallInteger),
        sa.Column("unrateable", sa.Boolean, nullable=False),
        sa.Column("judge_later", sa.Boolean, nullable=False),
        sa.Column("corpus_cleanup", sa.Boolean, nullable=False),
        *_texts("row_digest", "source", "answered_at"),
        sa.UniqueConstraint(*PAIR, "revision", name="one_answer_a_revision"),
        sa.CheckConstraint("grade BETWEEN 0 AND 9", name="grade_on_a_scale"),
        sa.CheckConstraint("NOT (unrateable AND grade IS NOT NULL)", name="unrateable_is_no_grade"),
        sa.CheckConstraint("grade IS NOT NULL OR unrateable OR judge_later", name="a_grade_or_a_flag"),
    )
    same = " AND ".join(f"later.{name} = answers.{name}" for name in PAIR)
    op.execute(
        "CREATE VIEW current_answers AS SELECT id, experiment, round, grader, query_id, chunk_id, revision, "  # noqa: S608
        "reason, grade, unrateable, "
        "judge_later, corpus_cleanup, row_digest, source, answered_at FROM answers "
        f"WHERE NOT EXISTS (SELECT 1 FROM answers AS later WHERE {same} AND later.revision > answers.revision)"
    )


def _append_only() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for table in TABLES:
            for change in ("UPDATE", "DELETE"):
                op.execute(
                    f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
                    f"BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: no {change} on {table}'); END"
                )
        return
    op.execute(
        "CREATE FUNCTION relgrade_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the ledger is append-only: no % on %', TG_OP, TG_TABLE_NAME; END $$"
    )
    for table in TABLES:
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION relgrade_append_only()"
        )
