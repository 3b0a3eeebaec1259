-- Of candidates some of which want semaphores or have a key: how many are taken. They and the gates of `_jobs` are
-- locked. One after the other, in order, each takes all that it wants, or stands in the line of what it lacks first.
-- `_paced` are rates of queues. `busy` are jobs that want what somebody else has locked: their runs stay ready. Whoever is
-- behind a refused run in its other lines may be next there: these are `gates`, `keys` (each of the job beside it) and
-- `names`.
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
    _new text[] := '{}';
    -- Of rates, as this claim leaves them: names, what is left, and so on; `_took` is what it takes, `_passed` the units
    -- that its runs take or are refused, which may have been woken for them, `_given` whether kept ones are taken.
    _rates text[] := '{}';
    _texts text[];
    _units bigint[];
    _lefts bigint[];
    _once boolean[];
    _kept text[];
    _took bigint[];
    _passed bigint[];
    _given boolean[];
    _is_rated boolean;
    _is_easy boolean;  -- the rates have enough left for all candidates, and so none is looked at for each of them
    _weight bigint;
    _line text;
    _n integer;
    _k integer;
BEGIN
    took := 0; busy := '{}'; gates := '{}'; key_jobs := '{}'; keys := '{}'; names := '{}';
    SELECT coalesce(array_agg(name), '{}'), bool_or(rate IS NOT NULL) INTO _locked, _is_rated FROM (
        SELECT name, rate FROM tokimori_semaphores WHERE name = ANY (_named) FOR NO KEY UPDATE SKIP LOCKED) s;
    _known := ARRAY(SELECT name FROM tokimori_semaphores WHERE name = ANY (_named));
    _barred := ARRAY(SELECT n FROM unnest(_known) n WHERE n <> ALL (_locked));
    IF _is_rated THEN
        SELECT array_agg(name), array_agg(rate), array_agg(units), array_agg("left"), array_agg(once), array_agg(kept),
            array_agg(0::bigint), array_agg(0::bigint), array_agg(false),
            bool_and("left" >= coalesce(wanted, 0) AND NOT once AND kept IS NULL) AND _named <@ _locked
        INTO _rates, _texts, _units, _lefts, _once, _kept, _took, _passed, _given, _is_easy
        FROM tokimori_rated(_locked) LEFT JOIN (
            SELECT name, sum(weight) AS wanted FROM tokimori_units_of(_ids, _jobs, _paced) GROUP BY 1) w USING (name);
    END IF;
    FOR _run IN
        SELECT r.id, r.incarnation, r.lane, r.concurrency_key AS key, tokimori_named(ARRAY[r.incarnation])
            || ARRAY(SELECT p FROM unnest(_paced) p WHERE p = 'queue:' || split_part(r.lane, '|', 1)) AS wants,
            CASE WHEN _is_easy IS NOT TRUE AND (j.semaphores LIKE '%:%' OR _is_rated) THEN ARRAY(
                SELECT (w ->> 1)::bigint FROM jsonb_array_elements(j.semaphores::jsonb) w
                ORDER BY (w ->> 0) COLLATE "C") END AS weights
        FROM unnest(_ids) AS c (id) JOIN tokimori_runs r ON r.id = c.id
        JOIN tokimori_jobs j ON j.incarnation = r.incarnation
        WHERE r.incarnation = ANY (_jobs) ORDER BY r."rank", r.id
    LOOP
        EXIT WHEN took = _left;
        _lacks := tokimori_lacks(_run.id, _paced);
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
        END IF;
        IF cardinality(_new) > 0 THEN
            SELECT _rates || array_agg(name), _texts || array_agg(rate), _units || array_agg(units),
                _lefts || array_agg("left"), _once || array_agg(once), _kept || array_agg(kept),
                _took || array_agg(0::bigint), _passed || array_agg(0::bigint), _given || array_agg(false)
            INTO _rates, _texts, _units, _lefts, _once, _kept, _took, _passed, _given FROM tokimori_rated(_new);
            _new := '{}';
        END IF;
        IF cardinality(_rates) > 0 AND _is_easy IS NOT TRUE THEN
            FOR _n IN 1 .. cardinality(_run.wants) LOOP
                _k := array_position(_rates, _run.wants[_n]);
                _weight := coalesce(_run.weights[_n], 1);
                IF _weight > _lefts[_k] OR _kept[_k] <> _run.lane THEN
                    _line := 'semaphore:' || _rates[_k];
                    IF _lacks IS NULL OR (_lacks LIKE 'semaphore:%' AND _line <= _lacks COLLATE "C") THEN
                        _lacks := _line;
                        IF _weight > _lefts[_k] AND _weight <= _units[_k] THEN
                            _lefts[_k] := 0;  -- what is left is kept for it
                        END IF;
                    END IF;
                END IF;
            END LOOP;
            FOR _n IN 1 .. cardinality(_run.wants) LOOP
                _k := array_position(_rates, _run.wants[_n]);
                CONTINUE WHEN _k IS NULL;
                _weight := coalesce(_run.weights[_n], 1);
                _passed[_k] := _passed[_k] + _weight;
                IF _lacks IS NOT NULL THEN
                    names := names || _rates[_k];
                    CONTINUE;
                END IF;
                _took[_k] := _took[_k] + _weight;
                _lefts[_k] := CASE WHEN _once[_k] THEN 0 ELSE _lefts[_k] - _weight END;
                IF _kept[_k] IS NOT NULL THEN
                    _given[_k] := true;
                    _kept[_k] := NULL;
                    names := names || _rates[_k];
                END IF;
            END LOOP;
        END IF;
        IF _lacks IS NULL THEN
            took := took + 1;
            UPDATE tokimori_runs SET state = 'running', token = token + 1, attempt = attempt + 1, node_id = _node,
                claim_id = _claim, pid = NULL, started = NULL, exit_code = NULL, signal = NULL, error = NULL,
                cpu = NULL, memory = NULL
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
    IF _is_easy THEN
        SELECT array_agg(coalesce(u.took, 0) ORDER BY nth), array_agg(coalesce(u.passed, 0) ORDER BY nth)
        INTO _took, _passed FROM unnest(_rates) WITH ORDINALITY AS r (name, nth) LEFT JOIN (
            SELECT name, sum(weight) FILTER (WHERE state = 'running') AS took,
                sum(weight) FILTER (WHERE state <> 'ready') AS passed
            FROM tokimori_units_of(_ids, _jobs, _paced) GROUP BY 1) u USING (name);
    END IF;
    IF cardinality(_rates) > 0 THEN
        PERFORM tokimori_take(u.name, u.rate, u.took) FROM unnest(_rates, _texts, _took) AS u (name, rate, took)
        WHERE u.took > 0;
        UPDATE tokimori_semaphores SET woken = greatest(0, woken - p.units), kept = kept AND NOT p.given
        FROM unnest(_rates, _passed, _given) AS p (rated, units, given)
        WHERE name = p.rated AND (woken > 0 OR kept);
    END IF;
END $$;
