-- What a run that has left its line had of turns goes to the next: a ready one may have been next in any of its lines,
-- and one that stood in the line of a semaphore may have kept others from passing. Gate and semaphores are locked.
CREATE OR REPLACE FUNCTION tokimori_pass_on(_job bigint, _state text, _key text, _blocked_on text, _names text[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF _state = 'ready' THEN
        PERFORM tokimori_wake(ARRAY[_job]);
        PERFORM tokimori_wake_keys(ARRAY[_job], ARRAY[_key]);
        PERFORM tokimori_free(_names);
    ELSIF _blocked_on LIKE 'semaphore:%' THEN
        PERFORM tokimori_free(ARRAY[substr(_blocked_on, 11)]);
    END IF;
END $$;
