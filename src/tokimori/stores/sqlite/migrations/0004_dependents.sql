-- Which jobs run after which. Programs of older schemas would end a parent without its children, so they are shut out.

CREATE TABLE tokimori_edges (
    parent TEXT NOT NULL,
    child TEXT NOT NULL,
    "on" TEXT NOT NULL,
    joins INTEGER NOT NULL,     -- how many parents the child waits for; 0: for this one alone
    declared_by TEXT NOT NULL,
    PRIMARY KEY (parent, child, "on", declared_by)
) WITHOUT ROWID;

CREATE INDEX tokimori_edges_declared ON tokimori_edges (declared_by);

-- At most one row, whose version grows with every change of the edges.
CREATE TABLE tokimori_family (one INTEGER PRIMARY KEY, version INTEGER NOT NULL);

-- For a child that waits for all of its parents, and a root: those that have ended as asked.
CREATE TABLE tokimori_arrivals (
    incarnation INTEGER NOT NULL,
    root TEXT NOT NULL,
    parent TEXT NOT NULL,
    PRIMARY KEY (incarnation, root, parent)
) WITHOUT ROWID;

ALTER TABLE tokimori_runs ADD COLUMN parent_id TEXT;
ALTER TABLE tokimori_runs ADD COLUMN root TEXT;
ALTER TABLE tokimori_runs ADD COLUMN result TEXT;
ALTER TABLE tokimori_history ADD COLUMN parent_id TEXT;
ALTER TABLE tokimori_history ADD COLUMN root TEXT;
ALTER TABLE tokimori_history ADD COLUMN result TEXT;
