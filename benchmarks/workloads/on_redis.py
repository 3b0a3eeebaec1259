"""W9: Tokimori on Redis against other schedulers and queues there, everything flushed before it is acknowledged."""

from benchmarks.comparison import Workload
from benchmarks.programs import node_program, python_program
from benchmarks.store_servers import redis_server
from benchmarks.workloads.on_a_server import Field

FIELD = Field(
    title="Redis, appendfsync always",
    start=redis_server,
    python={
        "Huey, 4 threads": python_program("redis_peers.huey_consumer"),
        "Dramatiq, 8 threads": python_program("redis_peers.dramatiq_worker"),
        "taskiq, list": python_program("redis_peers.taskiq_worker", "list"),
        "taskiq, stream": python_program("redis_peers.taskiq_worker", "stream"),
    },
    others={"BullMQ": node_program("redis_peers/bullmq.mjs")},
)
WORKLOAD = Workload("W9", "drain, lateness of 1,000 and idle cost on Redis", FIELD.trials)
