-- Paused queues. Older nodes know nothing of them and go on claiming: until they are gone, pause jobs.
-- Nodes since schema 4 work on this one.

CREATE TABLE tokimori_pauses (
    queue TEXT PRIMARY KEY NOT NULL, -- *: everything
    since INTEGER NOT NULL,
    reason TEXT,
    "by" TEXT
) WITHOUT ROWID;
