"""W10: Tokimori on MariaDB against APScheduler there, every commit durable."""

from benchmarks.apscheduler_peer import APSCHEDULER, LOOKING
from benchmarks.comparison import Workload
from benchmarks.programs import python_program
from benchmarks.store_servers import mariadb_server
from benchmarks.workloads.on_a_server import Field

FIELD = Field(
    title="MariaDB, innodb_flush_log_at_trx_commit=1",
    start=mariadb_server,
    python={APSCHEDULER: python_program("apscheduler_on_a_server")},
    others={},
    idlers={LOOKING: python_program("apscheduler_on_a_server", "looking")},
)
WORKLOAD = Workload("W10", "drain, lateness of 1,000 and idle cost on MariaDB", FIELD.trials)
