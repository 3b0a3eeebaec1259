-- Rows of the ledger are kept; one that begins where a known one begins replaces it.
CREATE OR REPLACE FUNCTION tokimori_keep_skips(_skips jsonb) RETURNS void LANGUAGE sql AS $$
    INSERT INTO tokimori_skips (incarnation, first, last, count, reason)
    SELECT incarnation, first, last, count, reason
    FROM jsonb_to_recordset(_skips) AS s (incarnation bigint, first bigint, last bigint, count bigint, reason text)
    ON CONFLICT (incarnation, first) DO UPDATE
    SET last = excluded.last, count = excluded.count, reason = excluded.reason
$$;
