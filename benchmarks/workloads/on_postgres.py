"""W12: Tokimori on PostgreSQL against other schedulers and queues there: lateness and idle cost. W2 is the drain."""

from benchmarks.apscheduler_peer import APSCHEDULER, LOOKING
from benchmarks.comparison import Workload
from benchmarks.programs import python_program
from benchmarks.store_servers import postgres_server
from benchmarks.workloads.on_a_server import Field

FIELD = Field(
    title="PostgreSQL, fsync and synchronous_commit on",
    start=postgres_server,
    python={
        APSCHEDULER: python_program("apscheduler_on_a_server"),
        "PgQueuer, batches of 500": python_program("postgres_peers.pgqueuer_worker"),
        "Procrastinate": python_program("postgres_peers.procrastinate_worker"),
    },
    others={},
    idlers={LOOKING: python_program("apscheduler_on_a_server", "looking")},
)
WORKLOAD = Workload(
    "W12", "lateness of 1,000 and idle cost on PostgreSQL", lambda quick: [FIELD.delayed(), *FIELD.timely(quick)]
)
