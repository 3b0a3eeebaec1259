-- Named days off, as people edit them. Those of a job stand in the job: an older node knows nothing of these.
-- Nodes since schema 1 work on this one.

CREATE TABLE tokimori_calendars (
    name TEXT PRIMARY KEY NOT NULL,
    definition TEXT NOT NULL -- JSON
) WITHOUT ROWID;
