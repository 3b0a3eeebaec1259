-- The lines that go on by now because of a rate are served, but those that are locked; how many there are.
CREATE OR REPLACE FUNCTION tokimori_go_on(_now bigint) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _due bigint := (SELECT count(*) FROM tokimori_semaphores WHERE wakes <= _now);
    _name text;
BEGIN
    FOR _name IN
        SELECT name FROM tokimori_semaphores WHERE wakes <= _now ORDER BY wakes LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        PERFORM tokimori_grant(_name);
        PERFORM tokimori_wake_in_turn(_name);
    END LOOP;
    RETURN _due;
END $$;
