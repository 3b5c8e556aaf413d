"""The server fixture itself."""

from __future__ import annotations

import sqlalchemy as sa


def test_a_server_of_our_own_answers_and_keeps_utf8_in_code_point_order(postgres_url: str) -> None:
    engine = sa.create_engine(postgres_url)
    with engine.connect() as connection:
        assert connection.execute(sa.text("SHOW server_encoding")).scalar_one() == "UTF8"
        assert connection.execute(sa.text("SHOW listen_addresses")).scalar_one() == ""
        words = sa.text("SELECT w FROM (VALUES ('b'), ('A'), ('é')) AS t(w) ORDER BY w")
        assert connection.execute(words).scalars().all() == ["A", "b", "é"]
    engine.dispose()
