-- Named days off, as people edit them. Those of a job stand in the job: an older node knows nothing of these.
-- Nodes since schema 1 work on this one.

CREATE TABLE tokimori_calendars (
    name VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    definition LONGTEXT NOT NULL -- JSON
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4
    COLLATE /*M!100600 utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */;
