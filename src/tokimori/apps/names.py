"""The names in `tokimori`: apps and clients, what their methods take and return, and the errors that they raise."""

from tokimori.apps.app import App, DeclaredArguments
from tokimori.apps.families import FunctionRequest, RunFamily, spawn
from tokimori.apps.families import all_of as all
from tokimori.apps.family_handles import Handles
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
    Duplicate,
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
from tokimori.model.calendar import Calendar
from tokimori.model.dependents import Edge
from tokimori.model.email import Email
from tokimori.model.ids import JobId, RunId
from tokimori.model.job import Definition, JobState
from tokimori.model.notifier import Notifier, NotifyOn
from tokimori.model.run import Output, SkipReason
from tokimori.model.target import Build, Command, Function, Http, Noop
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import NodeState
from tokimori.ports.store import SchemaStatus
from tokimori.schedules.fluent import every, on
from tokimori.service.bulk import Bulk
from tokimori.service.copying import KindCopied
from tokimori.service.definitions.arguments import (
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
from tokimori.service.definitions.imports import Imported, Start
from tokimori.service.definitions.requests import Became
from tokimori.service.doctor.finding import Diagnosis
from tokimori.service.jobs.requesting import CancelledRuns
from tokimori.service.reasons import Why
from tokimori.service.sets.resource_kinds import Resources
from tokimori.service.sets.work import Applied
from tokimori.service.views.alarms import Alarm, Expectation
from tokimori.service.views.channels import Channel, FoundMessages, Message
from tokimori.service.views.claims import ClaimedRun, HeartbeatAnswer
from tokimori.service.views.jobs import (
    DailyCount,
    DeletedJobs,
    Durations,
    FoundJobs,
    Job,
    JobNotifier,
    JobRetry,
    LedgerPage,
    Skip,
    Statistics,
    Verified,
)
from tokimori.service.views.nodes import NodeRecord
from tokimori.service.views.resources import Pause, Queue, SemaphoreDetails, SetState
from tokimori.service.views.runs import (
    AttemptDetails,
    Backfill,
    FailureCause,
    FamilyMember,
    FoundFailures,
    FoundRuns,
    Mute,
    ParentRun,
    RequestedRun,
    Run,
    RunDetails,
    RunSummary,
)
from tokimori.service.views.schedules import Explanation, Next

__all__ = [
    "Alarm",
    "AlreadyExists",
    "AlreadyFinished",
    "App",
    "Applied",
    "AskArguments",
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
    "Channel",
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
    "Duplicate",
    "Durations",
    "Edge",
    "Email",
    "Expectation",
    "Explanation",
    "FailureCause",
    "FailureFilters",
    "FamilyChanged",
    "FamilyMember",
    "Forbidden",
    "FoundFailures",
    "FoundJobs",
    "FoundMessages",
    "FoundRuns",
    "Function",
    "FunctionRequest",
    "Handle",
    "Handles",
    "HeartbeatAnswer",
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
    "JobNotifier",
    "JobRetry",
    "JobState",
    "KindCopied",
    "LedgerPage",
    "Message",
    "Moment",
    "Mute",
    "Next",
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
    "ParentRun",
    "Pause",
    "Permanent",
    "PermitLost",
    "PlainRequest",
    "Queue",
    "QueueArguments",
    "Refused",
    "RequestArguments",
    "RequestedRun",
    "Resources",
    "Run",
    "RunDetails",
    "RunError",
    "RunFailed",
    "RunFamily",
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
    "all",
    "as_completed",
    "current_task",
    "every",
    "gather",
    "on",
    "open",
    "open_async",
    "retry",
    "spawn",
]
