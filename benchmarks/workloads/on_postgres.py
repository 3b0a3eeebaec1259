"""W12: Tokimori on PostgreSQL against other schedulers and queues there: lateness and idle cost. W2 is the drain."""

from benchmarks.comparison import Workload
from benchmarks.programs import python_program
from benchmarks.store_servers import postgres_server
from benchmarks.workloads.on_a_server import Field

FIELD = Field(
    title="PostgreSQL, fsync and synchronous_commit on",
    start=postgres_server,
    python={
        "APScheduler 3": python_program("apscheduler_on_a_server"),
        "PgQueuer, batches of 500": python_program("postgres_peers.pgqueuer_worker"),
        "Procrastinate": python_program("postgres_peers.procrastinate_worker"),
    },
    others={},
    idlers={"APScheduler 3, looks every 2 s": python_program("apscheduler_on_a_server", "looking")},
)
WORKLOAD = Workload(
    "W12", "lateness of 1,000 and idle cost on PostgreSQL", lambda quick: [FIELD.delayed(), *FIELD.timely(quick)]
)
