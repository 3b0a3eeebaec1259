"""The names in `tokimori`: apps and clients, what their methods take and return, and the errors that they raise."""

from tokimori.apps.app import App, DeclaredArguments
from tokimori.apps.function import AskArguments, AsyncJobFunction, JobFunction, retry
from tokimori.apps.handle import Handle, RunError, agather, as_completed, gather
from tokimori.apps.task import Task, current_task
from tokimori.apps.worker import Worker
from tokimori.client.asynchronous import AsyncClient
from tokimori.client.client import Client, open, open_async
from tokimori.clock import Moment
from tokimori.errors import (
    AlreadyExists,
    AlreadyFinished,
    Bug,
    ClaimLost,
    Conflict,
    FamilyChanged,
    Forbidden,
    InvalidConfig,
    InvalidFile,
    InvalidInput,
    InvalidSchedule,
    NotFound,
    NotGranted,
    Outdated,
    Overtaken,
    Permanent,
    PermitLost,
    Refused,
    RunFailed,
    RunNotEnded,
    SchemaMismatch,
    StoreError,
    StoreRefused,
    StoreReplaced,
    StoreTooSlow,
    StoreUnavailable,
    TokimoriError,
    Unauthorized,
)
from tokimori.locks.holdings import Held
from tokimori.model.backfill import Backfill
from tokimori.model.calendar import Calendar
from tokimori.model.dependents import Edge
from tokimori.model.email import Email
from tokimori.model.expectation import Alarm, Expectation
from tokimori.model.ids import JobId, RunId
from tokimori.model.job import Definition, Job, JobState
from tokimori.model.lanes import Pause
from tokimori.model.message import Message
from tokimori.model.notifier import Notifier, NotifyOn
from tokimori.model.retention import DailyCount
from tokimori.model.run import Output, Run, Skip, SkipReason
from tokimori.model.statistics import Statistics
from tokimori.model.target import Build, Command, Function, Http, Noop
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import NodeRecord, NodeState
from tokimori.ports.store import SchemaStatus
from tokimori.schedules.explain import Explanation
from tokimori.schedules.fluent import every, on
from tokimori.service.arguments import (
    CalendarArguments,
    FailureFilters,
    JobArguments,
    JobFilters,
    NotifierArguments,
    PlainRequest,
    QueueArguments,
    RequestArguments,
    RunFilters,
    SemaphoreArguments,
)
from tokimori.service.bulk import Bulk
from tokimori.service.channels import FoundMessages
from tokimori.service.claimed import ClaimedRun, Heard
from tokimori.service.copying import KindCopied
from tokimori.service.deleting import DeletedJobs
from tokimori.service.doctor.finding import Diagnosis
from tokimori.service.failures import FailureCause, FoundFailures
from tokimori.service.finding import FoundJobs
from tokimori.service.finding_runs import FoundRuns
from tokimori.service.imports import Imported, Start
from tokimori.service.ledger import LedgerPage, Verified
from tokimori.service.queues import Queue
from tokimori.service.reasons import Why
from tokimori.service.requesting import CancelledRuns
from tokimori.service.requests import Asked, Became
from tokimori.service.resource_kinds import Resources
from tokimori.service.runs import AttemptDetails, RunDetails, RunSummary
from tokimori.service.semaphores import SemaphoreDetails
from tokimori.service.set_turns import SetState
from tokimori.service.set_work import Applied
from tokimori.service.shown import Shown

__all__ = [
    "Alarm",
    "AlreadyExists",
    "AlreadyFinished",
    "App",
    "Applied",
    "AskArguments",
    "Asked",
    "AsyncClient",
    "AsyncJobFunction",
    "AttemptDetails",
    "Backfill",
    "Became",
    "Bug",
    "Build",
    "Bulk",
    "Calendar",
    "CalendarArguments",
    "CancelledRuns",
    "ClaimLost",
    "ClaimedRun",
    "Client",
    "Command",
    "Conflict",
    "DailyCount",
    "DeclaredArguments",
    "Definition",
    "DeletedJobs",
    "Diagnosis",
    "Edge",
    "Email",
    "Expectation",
    "Explanation",
    "FailureCause",
    "FailureFilters",
    "FamilyChanged",
    "Forbidden",
    "FoundFailures",
    "FoundJobs",
    "FoundMessages",
    "FoundRuns",
    "Function",
    "Handle",
    "Heard",
    "Held",
    "Http",
    "Imported",
    "InvalidConfig",
    "InvalidFile",
    "InvalidInput",
    "InvalidSchedule",
    "Job",
    "JobArguments",
    "JobFilters",
    "JobFunction",
    "JobId",
    "JobState",
    "KindCopied",
    "LedgerPage",
    "Message",
    "Moment",
    "NodeRecord",
    "NodeState",
    "Noop",
    "NotFound",
    "NotGranted",
    "Notifier",
    "NotifierArguments",
    "NotifyOn",
    "Outdated",
    "Output",
    "Overtaken",
    "Pause",
    "Permanent",
    "PermitLost",
    "PlainRequest",
    "Queue",
    "QueueArguments",
    "Refused",
    "RequestArguments",
    "Resources",
    "Run",
    "RunDetails",
    "RunError",
    "RunFailed",
    "RunFilters",
    "RunId",
    "RunNotEnded",
    "RunState",
    "RunSummary",
    "SchemaMismatch",
    "SchemaStatus",
    "SemaphoreArguments",
    "SemaphoreDetails",
    "SetState",
    "Shown",
    "Skip",
    "SkipReason",
    "Start",
    "Statistics",
    "StoreError",
    "StoreRefused",
    "StoreReplaced",
    "StoreTooSlow",
    "StoreUnavailable",
    "Task",
    "TokimoriError",
    "Unauthorized",
    "Verified",
    "Why",
    "Worker",
    "agather",
    "as_completed",
    "current_task",
    "every",
    "gather",
    "on",
    "open",
    "open_async",
    "retry",
]
