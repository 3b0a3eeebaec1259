"""Numbered migrations of the MariaDB and MySQL store."""
