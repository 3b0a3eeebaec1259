-- Of runs that expire the moment is noted, in a document each (see `expiries_of`).
CREATE OR REPLACE FUNCTION tokimori_note_expiries(_ids uuid[], _details text[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO tokimori_documents (kind, name, text, version)
    SELECT 'expiry', lpad(d.details::json ->> 'expires', 20, '0') || ' ' || d.id, '', 1
    FROM unnest(_ids, _details) AS d (id, details)
    WHERE d.details LIKE '%"expires":%' AND d.details::json ->> 'expires' IS NOT NULL ON CONFLICT DO NOTHING;
$$;
