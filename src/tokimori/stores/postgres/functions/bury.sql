-- A node is declared dead, if it has not beaten since and its observer lives; its programs go with it. Whether it is
-- dead now.
CREATE OR REPLACE FUNCTION tokimori_bury(_dead uuid, _beat bigint, _observer uuid, _now bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM tokimori_nodes WHERE id IN (_dead, _observer) ORDER BY id FOR UPDATE;
    UPDATE tokimori_nodes SET state = 'dead', "left" = _now
    WHERE id = _dead AND beat = _beat AND state = 'alive'
        AND EXISTS (SELECT FROM tokimori_nodes WHERE id = _observer AND state = 'alive');
    IF FOUND THEN
        PERFORM tokimori_drop_programs(_dead);
    END IF;
    RETURN EXISTS (SELECT FROM tokimori_nodes WHERE id = _dead AND state = 'dead');
END $$;
