-- Which jobs run after which. Programs of older schemas would end a parent without its children, so they are shut out.

CREATE TABLE tokimori_edges (
    parent VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    child VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    "on" VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    joins INTEGER NOT NULL, -- how many parents the child waits for; 0: for this one alone
    declared_by VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (parent, child, "on", declared_by),
    KEY tokimori_edges_declared (declared_by)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- At most one row, whose version grows with every change of the edges. It is locked before any gate.
CREATE TABLE tokimori_family (
    one BOOLEAN NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
) ENGINE = InnoDB;

-- For a child that waits for all of its parents, and a root: those that have ended as asked, between commas.
CREATE TABLE tokimori_arrivals (
    incarnation BIGINT NOT NULL,
    root VARCHAR(300) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    parents LONGTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (incarnation, root)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

ALTER TABLE tokimori_runs
    ADD COLUMN parent_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
    ADD COLUMN root VARCHAR(300) CHARACTER SET ascii COLLATE ascii_bin,
    ADD COLUMN result LONGTEXT;
ALTER TABLE tokimori_history
    ADD COLUMN parent_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
    ADD COLUMN root VARCHAR(300) CHARACTER SET ascii COLLATE ascii_bin,
    ADD COLUMN result LONGTEXT;
