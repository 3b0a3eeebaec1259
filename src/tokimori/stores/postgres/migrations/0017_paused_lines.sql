-- Nodes since schema 6 work on this one.

-- As before, but a program is not kept waiting by runs of paused queues, of which nothing is claimed until a resume.
CREATE OR REPLACE FUNCTION tokimori_grant(_name text) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _left bigint := tokimori_unused(_name);
    _first bigint := (
        SELECT min(h."rank") FROM tokimori_heads(_name) h
        WHERE NOT EXISTS (SELECT FROM tokimori_pauses WHERE queue IN ('*', split_part(h.lane, '|', 1))));
    _token bigint;
    _program record;
BEGIN
    FOR _program IN
        SELECT id, weight FROM tokimori_permits
        WHERE semaphore = _name AND waiting AND "rank" <= coalesce(_first, 9223372036854775807)
        ORDER BY "rank", id LIMIT greatest(_left, 0)
    LOOP
        EXIT WHEN _program.weight > _left;
        UPDATE tokimori_semaphores SET granted = granted + 1 WHERE name = _name RETURNING granted INTO _token;
        UPDATE tokimori_permits SET waiting = false, token = _token WHERE id = _program.id;
        _left := _left - _program.weight;
    END LOOP;
    RETURN _token IS NOT NULL;
END $$;
