"""The plan of migrations: each statement with who waits for it."""

import pytest

from tokimori.cli.db import RULES, plan_of
from tokimori.ports.store import SchemaStatus
from tokimori.stores.migrations import Migration

TEXT = """-- Nodes since schema 1 work on this one.
CREATE TABLE IF NOT EXISTS tokimori_moons (a INTEGER);  -- new; here
CREATE UNIQUE INDEX tokimori_moons_a ON tokimori_moons (a);
ALTER TABLE tokimori_jobs ADD COLUMN moon INTEGER NOT NULL DEFAULT 7;
CREATE INDEX tokimori_runs_moon
    ON tokimori_runs (moon);
UPDATE tokimori_runs SET moon = 1;
INSERT INTO tokimori_counts SELECT 1;
ALTER TABLE tokimori_jobs DROP COLUMN moon;
"""
STATUS = SchemaStatus(version=1, newest=2, pending=("0002_moon", "functions_1"), oldest=1)


@pytest.mark.parametrize(
    ("kind", "waits"),
    [
        ("postgres", ["nobody", "nobody", "everybody", "who writes", "who wants", "nobody", "everybody", "nobody"]),
        ("mysql", ["nobody", "nobody", "everybody", "everybody", "who wants", "nobody", "everybody", "nobody"]),
        ("sqlite", ["nobody", "nobody", *5 * ["everybody who writes"], "nobody"]),
    ],
)
def test_each_statement_says_who_waits(kind: str, waits: list[str]) -> None:
    """By its first words and its table; what is made anew is nobody's yet."""
    plan = plan_of(STATUS, [Migration("0002_moon", TEXT)], RULES[kind])
    assert [(each.migration, each.waits.startswith(said)) for each, said in zip(plan.steps, waits, strict=True)] == [
        *7 * [("0002_moon", True)],
        ("functions_1", True),
    ]
    assert plan.steps[3].statement == "CREATE INDEX tokimori_runs_moon ON tokimori_runs (moon)"
    assert plan.oldest == 1


def test_a_migration_that_admits_nobody_says_so() -> None:
    """Without the line in its text, only nodes since its own schema go on."""
    assert plan_of(STATUS, [Migration("0002_moon", "DROP TABLE x;")], RULES["sqlite"]).oldest == 2


def test_nothing_is_pending() -> None:
    """Then there are no steps."""
    done = SchemaStatus(version=1, newest=1, pending=(), oldest=1)
    assert plan_of(done, [Migration("0001_tables", TEXT)], RULES["postgres"]).steps == []
