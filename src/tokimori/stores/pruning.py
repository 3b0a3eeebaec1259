"""Statements of pruning: the same for several stores with tables, but for how they name the values."""

from tokimori.clock import DAY
from tokimori.model.retention import MOST_COUNTED

FORGET = """
DELETE FROM tokimori_deleted_jobs WHERE incarnation = {incarnation}
    AND NOT EXISTS (SELECT 1 FROM tokimori_skips WHERE incarnation = {incarnation})
    AND NOT EXISTS (SELECT 1 FROM tokimori_arrivals WHERE incarnation = {incarnation})
    AND NOT EXISTS (SELECT 1 FROM tokimori_runs WHERE incarnation = {incarnation})
    AND (EXISTS (SELECT 1 FROM tokimori_jobs WHERE id = {job})
        OR NOT EXISTS (SELECT 1 FROM tokimori_history WHERE job_id = {job}))"""
"""Forget a deleted job of which nothing is left."""
_SKIPS = f"""
SELECT last - last %% {DAY} AS day, reason, sum(count), 0, count(*) FROM (
    SELECT last, reason, count FROM tokimori_skips
    WHERE incarnation {{}} LIMIT {MOST_COUNTED + 1}) kept GROUP BY 1, 2"""
COUNTS = f"""
SELECT ended - ended %% {DAY} AS day, state, count(*), 0, count(*) FROM (
    SELECT ended, state FROM tokimori_history /*! FORCE INDEX (tokimori_history_job) */ WHERE job_id = %s
    ORDER BY id DESC LIMIT {MOST_COUNTED + 1}) newest GROUP BY 1, 2
UNION ALL
{_SKIPS.format("= (SELECT incarnation FROM tokimori_jobs WHERE id = %s) ORDER BY first DESC")}
UNION ALL
{_SKIPS.format("IN (SELECT incarnation FROM tokimori_deleted_jobs WHERE job_id = %s)")}
UNION ALL
SELECT day, outcome, 0, sum(count), 0 FROM tokimori_counts WHERE job_id = %s GROUP BY 1, 2"""
"""What `daily_counts` reads. One statement: what is pruned meanwhile is in it once."""
