"""The store in one SQLite file: the embedded default, for several processes of one machine."""
