-- Which run took over what a request asked for, so that whoever lost the reply gets the same answer: for an hour.
-- Nodes since schema 3 work on this one.

CREATE TABLE tokimori_requests (
    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    run_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    asked BIGINT NOT NULL,
    KEY tokimori_requests_asked (asked)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
