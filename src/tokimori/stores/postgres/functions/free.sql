-- Each of these semaphores, which are locked, serves the programs and runs that are next in its line.
CREATE OR REPLACE FUNCTION tokimori_free(_names text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _name text;
BEGIN
    FOREACH _name IN ARRAY coalesce(_names, '{}') LOOP
        PERFORM tokimori_grant(_name);
        PERFORM tokimori_wake_line(_name, '{}');
    END LOOP;
END $$;
