-- A requested run is kept: 'made'. Or another one answers: one of the same origin, or that took over what this request
-- asked for before ('known'); the newest of its key (whose origins begin with `_prefix`), if it was made after `_since`
-- or holds the key (`_held`, if it has not ended, and no attempt unless `_begun`; 'known'), or has never started and `_replaces` ('replaced':
-- what it had of turns in lines goes to the next; 'changed' if one `_expects` another run or payload). Or the answer is
-- why there is none: 'unknown', 'full', 'moving' where not all runs have followed a change of the job, which a forced one
-- can't be told from, or the state of the job. `_lane` is that of a forced run where the job has none. The gate is held
-- alone, so that of two requests of one key the second one sees what the first one did. The key ends before `_ends[1]`;
-- from `_ends[2]` on are runs that a clock which was ahead has made: where these do not answer, the newest before them
-- counts.
CREATE OR REPLACE FUNCTION tokimori_ask_run(
    {_BIRTH types}, _prefix text, _ends text[], _since bigint, _held text[], _begun boolean, _replaces boolean,
    _expects boolean, _expected uuid, _known text, _forget bigint, _now bigint,
    OUT answer text, OUT run uuid) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _job record;
    _newest uuid;
    _ahead boolean;
    _end text;
    _was record;
    _names text[];
BEGIN
    SELECT state, coalesce(lane, _lane) AS lane INTO _job FROM tokimori_jobs
    WHERE incarnation = _incarnation AND id = _job_id FOR UPDATE;
    IF NOT FOUND THEN
        answer := 'unknown';
        RETURN;
    END IF;
    SELECT id INTO run FROM (
        SELECT id FROM tokimori_runs WHERE incarnation = _incarnation AND origin = _origin
        UNION ALL SELECT id FROM tokimori_history
        WHERE incarnation = _incarnation AND origin = _origin AND origin NOT LIKE 's:%'
        UNION ALL SELECT run_id FROM tokimori_requests WHERE id = _id) k LIMIT 1;
    IF FOUND THEN
        answer := 'known';
        RETURN;
    END IF;
    IF _lane IS NOT NULL AND EXISTS (SELECT FROM tokimori_moves WHERE incarnation = _incarnation) THEN
        answer := 'moving';
        RETURN;
    END IF;
    IF _job.lane IS NULL THEN
        answer := _job.state;
        RETURN;
    END IF;
    FOREACH _end IN ARRAY _ends LOOP
        EXIT WHEN _since IS NULL AND _held IS NULL AND NOT _replaces;
        SELECT id, origin >= _ends[2], CASE WHEN created > _since AND origin < _ends[2]
            OR state = ANY (_held) AND (_begun OR attempt = 0) THEN id END
        INTO _newest, _ahead, run FROM (
            (SELECT id, origin, created, state, attempt FROM tokimori_runs
            WHERE incarnation = _incarnation AND origin >= _prefix AND origin < _end
            ORDER BY origin DESC LIMIT 1)
            UNION ALL
            (SELECT id, origin, created, state, attempt FROM tokimori_history
            WHERE incarnation = _incarnation AND origin >= _prefix AND origin < _end AND origin NOT LIKE 's:%'
                AND _held IS NULL
            ORDER BY origin DESC LIMIT 1)) n
        ORDER BY origin DESC LIMIT 1;
        IF run IS NOT NULL THEN
            answer := 'known';
            RETURN;
        END IF;
        IF _replaces THEN
            _names := tokimori_lined(ARRAY[_incarnation]);
            PERFORM tokimori_lock_semaphores(_names);
            SELECT id, state, concurrency_key, blocked_on, payload INTO _was FROM tokimori_runs
            WHERE id = _newest AND attempt = 0 AND state IN ('waiting', 'ready', 'blocked') FOR UPDATE;
            IF FOUND AND _expects AND (_was.id, _was.payload) IS DISTINCT FROM (_expected, _known) THEN
                answer := 'changed';
                RETURN;
            END IF;
            IF FOUND THEN
                run := _was.id;
                UPDATE tokimori_runs SET state = 'waiting', nominal = _nominal, due = _due, priority = _priority,
                    "rank" = _rank, payload = _payload, details = _details, lane = _job.lane, blocked_on = NULL
                WHERE id = run;
                DELETE FROM tokimori_requests WHERE asked < _forget;
                INSERT INTO tokimori_requests (id, run_id, asked) VALUES (_id, run, _now);
                PERFORM tokimori_note_expiries(ARRAY[run], ARRAY[_details]);
                PERFORM tokimori_pass_on(_incarnation, _was.state, _was.concurrency_key, _was.blocked_on, _names);
                answer := 'replaced';
                RETURN;
            END IF;
        END IF;
        EXIT WHEN _ahead IS NOT TRUE;
    END LOOP;
    IF _expected IS NOT NULL THEN
        answer := 'changed';
        RETURN;
    END IF;
    IF cardinality(tokimori_full(ARRAY[_incarnation])) > 0 THEN
        answer := 'full';
        RETURN;
    END IF;
    INSERT INTO tokimori_runs ({BIRTH - lane}, lane) VALUES ({_BIRTH - lane}, _job.lane);
    PERFORM tokimori_note_expiries(ARRAY[_id], ARRAY[_details]);
    answer := 'made';
    run := _id;
END $$;
