"""Kala's example of dependent jobs: a parent and its child, which runs whenever the parent has succeeded.

    TOKIMORI_ADDRESS="$(tokimori node address)" python examples/kala_dependent_jobs.py

It works for a node of Tokimori; `tokimori node address` prints its address with the secret.
"""

import os
from datetime import UTC, datetime, timedelta

from tokimori.kala import KalaClient

kala = KalaClient(os.environ["TOKIMORI_ADDRESS"])

start = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="seconds")
parent = kala.create_job({"name": "parent", "command": "echo I am the parent", "schedule": f"R2/{start}/PT10S"})
print(f"Created the job {parent}")
child = kala.create_job({"name": "child", "command": "echo I run after it", "parent_jobs": [parent]})
print(f"Created the job {child}, which runs after it")

kala.start_job(parent)
for job in (kala.get_job(parent), kala.get_job(child)):
    print(f"{job.name}: {job.success_count} succeeded, {job.error_count} failed")
