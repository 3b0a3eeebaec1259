-- Named days off, as people edit them. Those of a job stand in the job: an older node knows nothing of these.
-- Nodes since schema 3 work on this one.

CREATE TABLE tokimori_calendars (
    name text COLLATE "C" PRIMARY KEY,
    definition text NOT NULL -- JSON
);
