-- Of the line of a semaphore with a rate, which is locked, as many runs become ready as there are units: one of each lane
-- after the other, from the one on whose turn it is, up to a head that wants more; it is next. If nobody else was woken,
-- what is free is kept for it. The rule is `serve_in_turn` of stores/rules/rates.py.
CREATE OR REPLACE FUNCTION tokimori_wake_in_turn(_name text) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _now bigint := tokimori_now();
    _patience constant bigint := 1000000;
    _most constant integer := 1000;
    _s record;
    _unused bigint := tokimori_unused(_name);
    _left bigint;
    _whole bigint;    -- the most that one run can have now
    _once boolean;
    _kept text;
    _units bigint;    -- of runs that were woken and are not claimed
    _before bigint;   -- the first program stands here
    _weight bigint;
    _lanes text[];
    _passed boolean;  -- lanes were left out: ready runs of theirs come before those in line
    _too_heavy text[] := '{}';
    _woken uuid[] := '{}';
    _run record;
    _stopped record;
    _at bigint;
BEGIN
    PERFORM tokimori_cut(_name, _now);
    SELECT *, now.* INTO _s FROM tokimori_semaphores s CROSS JOIN LATERAL tokimori_window(s.name, s.rate, _now) now
    WHERE name = _name;
    _left := least(_unused, CASE WHEN _s.spaced > _now THEN 0 ELSE greatest(_s.units - _s.used, 0) END);
    _whole := least(_unused, _s.units);
    _once := _s.every > 0;
    _kept := CASE WHEN _s.kept AND _now < _s.until THEN _s.turn END;
    _units := CASE WHEN _now < _s.until THEN _s.woken ELSE 0 END;
    SELECT "rank", weight INTO _before, _weight FROM tokimori_permits WHERE semaphore = _name AND waiting
    ORDER BY "rank", id LIMIT 1;
    SELECT coalesce(array_agg(lane) FILTER (WHERE NOT older), '{}'), coalesce(bool_or(older), false)
    INTO _lanes, _passed FROM (
        SELECT h.lane, EXISTS (
            SELECT FROM tokimori_runs WHERE state = 'ready' AND lane = h.lane AND "rank" <= h."rank") AS older
        FROM tokimori_heads(_name) h) l;
    IF _kept IS NOT NULL AND _units = 0 AND NOT _passed AND NOT EXISTS (
        SELECT FROM tokimori_heads(_name) h LEFT JOIN tokimori_jobs j ON j.incarnation = h.incarnation
        WHERE h.lane = _kept AND h."rank" < coalesce(_before, 9223372036854775807)
            AND coalesce(tokimori_weight(j.semaphores, _name), 1) <= _whole)
    THEN  -- its head has gone
        _kept := NULL;
    END IF;
    FOR _run IN
        SELECT l.lane, w.id, coalesce(tokimori_weight(j.semaphores, _name), 1) AS weight
        FROM unnest(_lanes) AS l (lane) CROSS JOIN LATERAL (
            SELECT id, incarnation, row_number() OVER (ORDER BY "rank", id) AS nth FROM (
                SELECT id, incarnation, "rank" FROM tokimori_runs
                WHERE state = 'blocked' AND blocked_on = 'semaphore:' || _name AND lane = l.lane
                    AND "rank" < coalesce(_before, 9223372036854775807)
                ORDER BY "rank", id LIMIT least(greatest(_left, 0), _most) + 1) r) w
        LEFT JOIN tokimori_jobs j ON j.incarnation = w.incarnation
        WHERE _kept IS NULL OR l.lane = _kept
        ORDER BY w.nth, l.lane < coalesce(_s.turn, ''), l.lane
    LOOP
        CONTINUE WHEN _run.lane = ANY (_too_heavy);
        IF _run.weight > _whole THEN  -- units that are given back serve it, or a larger limit
            _too_heavy := _too_heavy || _run.lane;
            CONTINUE;
        END IF;
        _stopped := _run;
        EXIT WHEN _run.weight > _left - _units OR (_once AND _units > 0) OR cardinality(_woken) = _most;
        _woken := _woken || _run.id;
        _units := _units + _run.weight;
        _stopped := NULL;
        EXIT WHEN _kept IS NOT NULL;
    END LOOP;
    PERFORM tokimori_ready(_woken);
    _s.until := CASE WHEN cardinality(_woken) > 0 THEN _now + _patience ELSE _s.until END;
    _s.kept := _kept IS NOT NULL;
    IF _stopped IS NOT NULL AND cardinality(_woken) < _most THEN
        _at := tokimori_opens(_name, _s.rate, _stopped.weight, _units, _now);
        _at := CASE WHEN _units > 0 AND _stopped.weight <= _left THEN least(_at, _s.until) ELSE _at END;
        _s.turn := _stopped.lane;
        _s.kept := _units = 0 AND _left > 0 AND _stopped.weight > _left;
        _s.until := CASE WHEN _s.kept THEN _at + _patience ELSE _s.until END;
        _at := greatest(_at, _now + 1);
    ELSIF _kept IS NOT NULL THEN
        _at := _s.until;
    ELSIF _stopped IS NOT NULL THEN
        _s.turn := _stopped.lane;
        _at := _now + 100000;
    ELSE
        _s.turn := NULL;
        _at := CASE WHEN _weight <= _whole THEN tokimori_opens(_name, _s.rate, _weight, _units, _now) END;
    END IF;
    _at := CASE WHEN _passed THEN least(_at, _now + 100000) ELSE _at END;
    UPDATE tokimori_semaphores SET wakes = _at, turn = _s.turn, kept = _s.kept, woken = _units, until = _s.until
    WHERE name = _name
        AND (wakes, turn, kept, woken, until) IS DISTINCT FROM (_at, _s.turn, _s.kept, _units, _s.until);
END $$;
