-- What became of pruned rows, and which jobs are gone, whose rows are still to be pruned.
-- Nodes since schema 6 work on this one.

CREATE TABLE tokimori_counts (
    job_id text COLLATE "C" NOT NULL,
    incarnation bigint NOT NULL,
    day bigint NOT NULL,   -- midnight UTC: of a run's end, of a skip's last moment
    outcome text NOT NULL, -- the last state of runs, or the reason of skips
    count bigint NOT NULL,
    PRIMARY KEY (job_id, incarnation, day, outcome)
);

CREATE TABLE tokimori_deleted_jobs (
    incarnation bigint PRIMARY KEY,
    job_id text COLLATE "C" NOT NULL
);
CREATE INDEX tokimori_deleted_jobs_id ON tokimori_deleted_jobs (job_id);
INSERT INTO tokimori_deleted_jobs (incarnation, job_id)
SELECT incarnation, max(job_id) FROM tokimori_history
WHERE incarnation NOT IN (SELECT incarnation FROM tokimori_jobs) GROUP BY incarnation;

CREATE INDEX tokimori_nodes_gone ON tokimori_nodes ("left") WHERE state <> 'alive';

-- As before, and what the job leaves behind is remembered.
CREATE OR REPLACE FUNCTION tokimori_delete_job(_id text, _reason text, _now bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _incarnation bigint;
BEGIN
    IF EXISTS (SELECT FROM tokimori_edges WHERE declared_by = _id) THEN
        PERFORM tokimori_declare(ARRAY[_id], '[]', NULL);
    END IF;
    SELECT incarnation INTO _incarnation FROM tokimori_jobs WHERE id = _id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM tokimori_jobs WHERE incarnation = _incarnation;
    INSERT INTO tokimori_deleted_jobs (incarnation, job_id) VALUES (_incarnation, _id);
    PERFORM tokimori_cancel(
        ARRAY(SELECT id FROM tokimori_runs WHERE incarnation = _incarnation AND state <> 'running'), _reason, _now);
    RETURN true;
END $$;

-- Turn old runs of a job into counts; how many. Those that somebody else has locked are his.
CREATE FUNCTION tokimori_prune_runs(
    _job_id text, _first_id uuid, _before bigint, _keyed_before bigint, _keep integer, _limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _kept uuid;
    _ids uuid[];
BEGIN
    IF _keep > 0 THEN
        SELECT id INTO _kept FROM tokimori_history WHERE job_id = _job_id ORDER BY id DESC LIMIT 1 OFFSET _keep - 1;
        IF NOT FOUND THEN
            RETURN 0;
        END IF;
    END IF;
    _ids := ARRAY(
        SELECT id FROM tokimori_history WHERE job_id = _job_id AND id < least(_first_id, _kept)
            AND ended < _before AND (origin LIKE 's:%' OR ended < _keyed_before)
        ORDER BY id LIMIT _limit FOR UPDATE SKIP LOCKED);
    DELETE FROM tokimori_attempts WHERE run_id = ANY (_ids);
    DELETE FROM tokimori_outputs WHERE run_id = ANY (_ids);
    WITH gone AS (DELETE FROM tokimori_history WHERE id = ANY (_ids) RETURNING incarnation, ended, state)
    INSERT INTO tokimori_counts AS c (job_id, incarnation, day, outcome, count)
    SELECT _job_id, incarnation, ended - ended % 86400000000, state, count(*) FROM gone GROUP BY 2, 3, 4 ORDER BY 2, 3, 4
    ON CONFLICT (job_id, incarnation, day, outcome) DO UPDATE SET count = c.count + excluded.count;
    RETURN cardinality(_ids);
END $$;

-- The same of skips; the newest one stays, unless the job is deleted: an open range may still grow.
CREATE FUNCTION tokimori_prune_skips(
    _job_id text, _incarnation bigint, _before bigint, _deleted boolean, _limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _firsts bigint[];
BEGIN
    _firsts := ARRAY(
        SELECT first FROM tokimori_skips WHERE incarnation = _incarnation AND first < _before AND last < _before
            AND (_deleted OR first < (SELECT max(first) FROM tokimori_skips WHERE incarnation = _incarnation))
        ORDER BY first LIMIT _limit FOR UPDATE SKIP LOCKED);
    WITH gone AS (
        DELETE FROM tokimori_skips WHERE incarnation = _incarnation AND first = ANY (_firsts)
        RETURNING last, reason, count)
    INSERT INTO tokimori_counts AS c (job_id, incarnation, day, outcome, count)
    SELECT _job_id, _incarnation, last - last % 86400000000, reason, sum(count) FROM gone GROUP BY 3, 4 ORDER BY 3, 4
    ON CONFLICT (job_id, incarnation, day, outcome) DO UPDATE SET count = c.count + excluded.count;
    RETURN cardinality(_firsts);
END $$;

-- Both for many jobs, until so many rows are gone; how many. A deleted job of which nothing is left is forgotten.
CREATE FUNCTION tokimori_prune(_expiries jsonb, _limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _e record;
    _left integer := _limit;
    _exists boolean;
BEGIN
    FOR _e IN SELECT * FROM jsonb_to_recordset(_expiries) AS e (
        job_id text, incarnation bigint, first_id uuid, before bigint, keyed_before bigint, keep_runs integer,
        deleted boolean)
    LOOP
        _exists := NOT _e.deleted OR EXISTS (SELECT FROM tokimori_jobs WHERE id = _e.job_id);
        IF _left > 0 AND (NOT _e.deleted OR NOT _exists) THEN
            _left := _left - tokimori_prune_runs(
                _e.job_id, _e.first_id, _e.before, _e.keyed_before, _e.keep_runs, _left);
        END IF;
        IF _left > 0 THEN
            _left := _left - tokimori_prune_skips(_e.job_id, _e.incarnation, _e.before, _e.deleted, _left);
        END IF;
        IF _left > 0 AND _e.deleted THEN
            DELETE FROM tokimori_deleted_jobs WHERE incarnation = _e.incarnation
                AND NOT EXISTS (SELECT FROM tokimori_skips WHERE incarnation = _e.incarnation)
                AND NOT EXISTS (SELECT FROM tokimori_runs WHERE incarnation = _e.incarnation)
                AND (_exists OR NOT EXISTS (SELECT FROM tokimori_history WHERE job_id = _e.job_id));
        END IF;
    END LOOP;
    RETURN _limit - _left;
END $$;
