-- How many units of a semaphore a job with these semaphores takes.
CREATE OR REPLACE FUNCTION tokimori_weight(_semaphores text, _name text) RETURNS integer
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN (SELECT (w ->> 1)::integer FROM jsonb_array_elements(_semaphores::jsonb) w WHERE w ->> 0 = _name);
END $$;
