-- Paused queues, and the gate: a row with an empty name, whose lock claims share. Nodes make it when they register. Older ones
-- know nothing of it and go on claiming: until they are gone, pause jobs.
-- Nodes since schema 3 work on this one.

CREATE TABLE tokimori_pauses (
    queue VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, -- *: everything
    since BIGINT NOT NULL,
    reason LONGTEXT,
    "by" LONGTEXT
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4
    COLLATE /*M!100600 utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */;
