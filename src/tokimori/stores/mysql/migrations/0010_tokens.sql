-- At most one row: the newest token of programs' grants of all semaphores that were deleted. Those of a semaphore that is
-- made anew begin above it, so that who held one of that name before has none that is greater.
-- Nodes since schema 3 work on this one.

CREATE TABLE tokimori_tokens (
    one BOOLEAN NOT NULL PRIMARY KEY,
    newest BIGINT NOT NULL
) ENGINE = InnoDB;
