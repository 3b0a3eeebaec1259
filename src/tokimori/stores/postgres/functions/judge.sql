-- Of candidates some of which want semaphores or have a key: how many are taken. They and the gates of `_jobs` are
-- locked. One after the other, in order, each takes all that it wants, or stands in the line of what it lacks first.
-- `_paced` are rates of queues. `busy` are jobs that want what somebody else has locked: their runs stay ready. Whoever is behind a refused run in
-- its other lines may be next there: these are `gates`, `keys` (each of the job beside it) and `names`.
CREATE OR REPLACE FUNCTION tokimori_judge(
    _claim uuid, _node uuid, _ids uuid[], _jobs bigint[], _paced text[], _left integer, _now bigint, OUT took integer,
    OUT busy bigint[], OUT gates bigint[], OUT key_jobs bigint[], OUT keys text[], OUT names text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _named text[] := tokimori_named(_jobs) || _paced;
    _locked text[];
    _known text[];
    _barred text[];
    _run record;
    _lacks text;
    _new text[];
    _rated jsonb;         -- those with a rate, as this claim leaves them
    _units jsonb := '{}'; -- what it takes of each
    _passed jsonb := '{}'; -- the units that runs of this claim take or are refused, which may have been woken for them
    _kept text[] := '{}'; -- those whose kept units are taken
    _name text;
    _weight bigint;
BEGIN
    took := 0; busy := '{}'; gates := '{}'; key_jobs := '{}'; keys := '{}'; names := '{}';
    SELECT coalesce(array_agg(name), '{}'), CASE WHEN bool_or(rate IS NOT NULL) THEN tokimori_rated(array_agg(name)) END
    INTO _locked, _rated FROM (
        SELECT name, rate FROM tokimori_semaphores WHERE name = ANY (_named) FOR NO KEY UPDATE SKIP LOCKED) s;
    _known := ARRAY(SELECT name FROM tokimori_semaphores WHERE name = ANY (_named));
    _barred := ARRAY(SELECT n FROM unnest(_known) n WHERE n <> ALL (_locked));
    FOR _run IN
        SELECT r.id, r.incarnation, r.lane, r.concurrency_key AS key, tokimori_named(ARRAY[r.incarnation])
            || ARRAY(SELECT p FROM unnest(_paced) p WHERE p = 'queue:' || split_part(r.lane, '|', 1)) AS wants
        FROM unnest(_ids) AS c (id) JOIN tokimori_runs r ON r.id = c.id
        WHERE r.incarnation = ANY (_jobs) ORDER BY r."rank", r.id
    LOOP
        EXIT WHEN took = _left;
        _lacks := tokimori_lacks(_run.id, _rated);
        IF NOT _run.wants <@ _locked THEN
            _new := ARRAY(
                SELECT n FROM unnest(_run.wants) n
                WHERE n <> ALL (_known) AND (_lacks IS NULL OR 'semaphore:' || n <= _lacks COLLATE "C"));
            IF _run.wants && _barred OR (cardinality(_new) > 0 AND NOT tokimori_make_semaphores(_new)) THEN
                busy := busy || _run.incarnation;
                CONTINUE;
            END IF;
            _known := _known || _new;
            _locked := _locked || _new;
            _rated := coalesce(_rated, '{}') || coalesce(tokimori_rated(_new), '{}');
            _lacks := coalesce(_lacks, tokimori_lacks(_run.id, _rated));
        END IF;
        IF _rated IS NOT NULL THEN
            FOR _name, _weight IN
                SELECT n, coalesce(tokimori_weight(j.semaphores, n), 1) FROM unnest(_run.wants) n
                JOIN tokimori_jobs j ON j.incarnation = _run.incarnation WHERE _rated ? n
            LOOP
                _passed := _passed || jsonb_build_object(_name, coalesce((_passed ->> _name)::bigint, 0) + _weight);
                IF _lacks IS NULL THEN
                    _units := _units || jsonb_build_object(_name, coalesce((_units ->> _name)::bigint, 0) + _weight);
                    IF _rated -> _name ->> 'kept' IS NOT NULL THEN
                        _kept := _kept || _name;
                        names := names || _name;
                    END IF;
                    _rated := jsonb_set(_rated, ARRAY[_name], _rated -> _name || jsonb_build_object(
                        'kept', NULL, 'left', CASE WHEN (_rated -> _name ->> 'once')::boolean THEN 0
                            ELSE (_rated -> _name ->> 'left')::bigint - _weight END));
                ELSE
                    names := names || _name;
                    IF _lacks = 'semaphore:' || _name AND _weight > (_rated -> _name ->> 'left')::bigint
                        AND _weight <= split_part(_rated -> _name ->> 'rate', '/', 1)::bigint THEN
                        _rated := jsonb_set(_rated, ARRAY[_name, 'left'], '0');  -- what is left is kept for it
                    END IF;
                END IF;
            END LOOP;
        END IF;
        IF _lacks IS NULL THEN
            took := took + 1;
            UPDATE tokimori_runs SET state = 'running', token = token + 1, attempt = attempt + 1, node_id = _node,
                claim_id = _claim, pid = NULL, started = NULL, exit_code = NULL, signal = NULL, error = NULL
            WHERE id = _run.id;
            INSERT INTO tokimori_permits (id, semaphore, node_id, run_id, token, weight, "rank", waiting, since)
            SELECT r.id::text || '/' || n, n, _node, r.id, r.token, tokimori_weight(j.semaphores, n), r."rank", false,
                _now
            FROM unnest(_run.wants) n JOIN tokimori_runs r ON r.id = _run.id
            JOIN tokimori_jobs j ON j.incarnation = r.incarnation
            WHERE n NOT LIKE '%:%';  -- nobody holds units of the rate of a job or a queue
            CONTINUE;
        END IF;
        UPDATE tokimori_runs SET state = 'blocked', blocked_on = nullif(_lacks, '') WHERE id = _run.id;
        names := names || array_remove(_run.wants, substr(_lacks, 11));
        IF _lacks <> '' THEN
            gates := gates || _run.incarnation;
        END IF;
        IF _lacks <> 'key' AND _run.key IS NOT NULL THEN
            key_jobs := key_jobs || _run.incarnation;
            keys := keys || _run.key;
        END IF;
    END LOOP;
    IF _rated IS NOT NULL THEN
        PERFORM tokimori_take(u.key, _rated -> u.key ->> 'rate', u.value::bigint) FROM jsonb_each_text(_units) u;
        UPDATE tokimori_semaphores SET woken = greatest(0, woken - p.value::bigint), kept = kept AND name <> ALL (_kept)
        FROM jsonb_each_text(_passed) p WHERE name = p.key AND (woken > 0 OR kept);
    END IF;
END $$;
