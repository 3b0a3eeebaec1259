"""Statements of pruning: the same for several stores with tables, but for how they name the values."""

from tokimori.clock import DAY

FORGET = """
DELETE FROM tokimori_deleted_jobs WHERE incarnation = {incarnation}
    AND NOT EXISTS (SELECT 1 FROM tokimori_skips WHERE incarnation = {incarnation})
    AND NOT EXISTS (SELECT 1 FROM tokimori_arrivals WHERE incarnation = {incarnation})
    AND NOT EXISTS (SELECT 1 FROM tokimori_runs WHERE incarnation = {incarnation})
    AND (EXISTS (SELECT 1 FROM tokimori_jobs WHERE id = {job})
        OR NOT EXISTS (SELECT 1 FROM tokimori_history WHERE job_id = {job}))"""
"""Forget a deleted job of which nothing is left."""
COUNTS = f"""
SELECT ended - ended % {DAY} AS day, state, count(*), 0
FROM tokimori_history {{index}} WHERE job_id = {{job}} GROUP BY 1, 2
UNION ALL
SELECT last - last % {DAY} AS day, reason, CAST(sum(count) AS {{whole}}), 0 FROM tokimori_skips WHERE incarnation IN (
    SELECT incarnation FROM tokimori_jobs WHERE id = {{job}}
    UNION SELECT incarnation FROM tokimori_deleted_jobs WHERE job_id = {{job}}) GROUP BY 1, 2
UNION ALL
SELECT day, outcome, 0, CAST(sum(count) AS {{whole}}) FROM tokimori_counts WHERE job_id = {{job}} GROUP BY 1, 2"""
"""What `daily_counts` reads."""
