"""The migrations of the MariaDB and MySQL store."""

from tokimori.stores.mysql.schema import known_migrations, statements


def test_a_migration_is_taken_apart() -> None:
    """Each statement ends with a semicolon at the end of a line; comments are left out, those for one server stay."""
    text = "-- What; for.\nCREATE TABLE a (\n  b INT -- a; b\n) /*!80000 c */;\n\nDROP TABLE d;\n"
    assert list(statements(text)) == ["CREATE TABLE a (\n  b INT \n) /*!80000 c */", "DROP TABLE d"]


def test_every_migration_has_statements() -> None:
    """Nothing of a migration is lost: as many statements as semicolons at the ends of lines."""
    for migration in known_migrations():
        lines = migration.text.splitlines()
        assert len(list(statements(migration.text))) == sum(line.endswith(";") for line in lines) > 0
