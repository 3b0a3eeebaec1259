"""The PostgreSQL store: asyncpg and hand-written SQL."""
