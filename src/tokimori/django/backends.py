"""The backend of Django's tasks: `TASKS = {"default": {"BACKEND": "tokimori.django.backends.TokimoriBackend"}}`.

Each task is a job, made when it is first asked for. `OPTIONS` are fields of these jobs: `{"attempts": 3}`.
"""

import json
import os
import re
import sys
import traceback
from collections.abc import Awaitable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.utils.module_loading import import_string

from tokimori.apps.app import spread
from tokimori.apps.handle import RunError, error_in
from tokimori.apps.task import Task as RunningTask
from tokimori.client.asynchronous import AsyncClient, Way, trigger_within, wants
from tokimori.client.facade import done
from tokimori.django.jobs import app
from tokimori.errors import AlreadyExists, InvalidInput, NotFound
from tokimori.executors.functions.wire import Declared
from tokimori.model.ids import JobId, check_job_id
from tokimori.model.transitions import ENDS, RunState
from tokimori.service.definitions.definitions import definition_from
from tokimori.service.validation import job_fields
from tokimori.service.views.runs import Run

_LATE = "django_tasks" in settings.INSTALLED_APPS or find_spec("django.tasks") is None  # it came with Django 6
_LIBRARY = "django_tasks" if _LATE else "django.tasks"
_base, _backends = import_module(f"{_LIBRARY}.base"), import_module(f"{_LIBRARY}.backends.base")
_signals, _exceptions = import_module(f"{_LIBRARY}.signals"), import_module(f"{_LIBRARY}.exceptions")
_normalized = import_module("django_tasks.utils" if _LATE else "django.utils.json").normalize_json
_Status = _base.TaskResultStatus
_STATES = {RunState.RUNNING: _Status.RUNNING, RunState.SUCCEEDED: _Status.SUCCESSFUL}
_OWNER = f"{app.name}-tasks"


class TokimoriBackend(_backends.BaseTaskBackend):  # type: ignore[misc,name-defined]  # of one of two libraries
    """Tasks as runs of Tokimori. What is enqueued within `transaction.atomic()` is so exactly if that commits."""

    supports_defer = supports_async_task = supports_get_result = supports_priority = True

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Request a run of the task; in the caller's transaction if one has begun on the store's database."""
        self.validate_task(task)
        job_id, asked, after = (
            self.job_of(task),
            {"priority": task.priority, "at": _aware(task.run_after)},
            task.run_after,
        )
        terms = {"backend": self.alias, "queue_name": task.queue_name, "priority": task.priority}
        terms |= {"run_after": None if after is None else after.isoformat(), "enqueued": datetime.now(UTC).isoformat()}
        given = {"args": _normalized(list(args)), "kwargs": _normalized(dict(kwargs))}
        payload, connection = json.dumps({"path": task.module_path, **given, "terms": terms}), app._transaction()

        async def ask(way: Way) -> Run:
            if connection is not None:
                return await trigger_within(way, connection, wants(job_id, None, payload, cast("Any", asked)))
            return await way(lambda client: client.jobs.trigger(job_id, None, payload, **cast("Any", asked)))

        run = done(app._ask(app.ways.blocking("`await task.aenqueue(…)`"), job_id, ask, connection))
        result = _result_of(run, None, task)
        _signals.task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Return what became of a task. Raises `TaskResultDoesNotExist`."""
        run, error = done(app.ways.blocking("`await task.aget_result(…)`")(partial(_read, run_id=result_id)))
        return _result_of(run, error)

    def check(self, **_: Any) -> list[Any]:
        """Return what is wrong with the settings."""
        found = []
        if not apps.is_installed("tokimori.django"):
            hint = 'Add "tokimori.django" to INSTALLED_APPS: `manage.py tokimori worker` runs the tasks.'
            found.append(checks.Error("tokimori.django is not installed.", hint=hint, id="tokimori.E001"))
        try:
            definition_from(job_fields(spread({**self.options, "function": _OWNER})))
        except InvalidInput as fault:
            message = f"OPTIONS of the backend {self.alias!r}: {fault.message}"
            found.append(checks.Error(message, hint=fault.allowed, id="tokimori.E002"))
        return found

    def job_of(self, task: Any) -> JobId:
        """Return the id of the task's job, whose fields are known from now on."""
        job_id = check_job_id(task.module_path + ("" if task.queue_name == "default" else f"@{task.queue_name}"))
        if job_id not in app.tasks:
            fields = {**self.options, "queue": task.queue_name, "owner": _OWNER, "function": f"{_OWNER}.{job_id}"}
            app.tasks[job_id] = Declared(id=job_id, fields=spread(fields))
        return job_id


async def declare_tasks() -> None:
    """Store the jobs of the tasks in all `tasks.py`: new ones, and those whose OPTIONS are others than before."""
    modules = (sys.modules.get(f"{each.name}.tasks") for each in apps.get_app_configs())
    tasks = (each for module in modules if module is not None for each in vars(module).values())
    for task in tasks:
        if isinstance(task, _base.Task) and isinstance(task.get_backend(), TokimoriBackend):
            declared = app.tasks[task.get_backend().job_of(task)]
            await app.ways.awaiting(partial(_declare, declared=declared))


async def _declare(client: AsyncClient, *, declared: Declared) -> None:
    try:
        await client.jobs.add(declared.id, **cast("Any", declared.fields))
    except AlreadyExists:
        known = await client.jobs.get(declared.id)
        if known.owner == _OWNER:
            await client.jobs.update(declared.id, **cast("Any", declared.fields))


async def _read(client: AsyncClient, *, run_id: str) -> tuple[Run, RunError | None]:
    try:
        run = await client.runs.get(run_id)
    except (NotFound, InvalidInput) as fault:
        raise _exceptions.TaskResultDoesNotExist(fault.message) from None
    if "terms" not in _said_in(run):
        raise _exceptions.TaskResultDoesNotExist(f"the run {run_id} is none of a task")
    return run, None if run.error is None else error_in(run, await client.runs.output(run.id))


def _said_in(run: Run) -> dict[str, Any]:
    found = json.loads(run.payload or "{}")
    return found if isinstance(found, dict) else {}


def _aware(given: datetime | None) -> datetime | None:
    """Return the moment; one that names no zone is in the zone of the process, as Django takes it."""
    return given if given is None or given.tzinfo is not None else given.astimezone()


def _result_of(run: Run, error: RunError | None, task: Any = None) -> Any:
    """Return the run as the result of a task."""
    text = _said_in(run)
    ended = run.state in ENDS
    status = _STATES.get(run.state, _Status.FAILED if ended else _Status.READY)
    result = _base.TaskResult(
        task=_task_of(text["path"], text["terms"]) if task is None else task,
        id=str(run.id),
        status=status,
        enqueued_at=run.created,
        started_at=run.started,
        finished_at=run.ended if ended else None,
        last_attempted_at=run.started,
        args=text["args"],
        kwargs=text["kwargs"],
        backend=text["terms"]["backend"],
        errors=[_error_of(run, error)] if status == _Status.FAILED else [],
        worker_ids=[run.node_id or ""] * run.attempt,
    )
    if status == _Status.SUCCESSFUL and run.result is not None:
        object.__setattr__(result, "_return_value", json.loads(run.result))
    return result


def _error_of(run: Run, error: RunError | None) -> Any:
    """Return the error of a task. The whole name of its class stands in the last lines of its traceback."""
    if error is None or not error.traceback:
        return _base.TaskError(exception_class_path="tokimori.RunFailed", traceback=run.error or str(run.state))
    kind = re.match(r"[\w.]*", error)
    found = re.findall(rf"^((?:\w+\.)*{kind[0] if kind else ''})(?::|$)", error.traceback, re.MULTILINE)
    name = found[-1] if found else "Exception"
    path = name if "." in name else f"builtins.{name}"
    return _base.TaskError(exception_class_path=path, traceback=f"{error.traceback}\n")


def _task_of(path: str, terms: Mapping[str, Any]) -> Any:
    """Return the task with the terms of the request. Raises `ImportError`, and `InvalidInput` for what is no task."""
    task, after = import_string(path), terms["run_after"]
    if not isinstance(task, _base.Task):
        raise InvalidInput(f"task: {path!r} is no task", field="task", value=path, allowed="a function with @task")
    given = {name: terms[name] for name in ("backend", "queue_name", "priority")}
    return task.using(run_after=None if after is None else datetime.fromisoformat(after), **given)


# In a worker process


@app.handler(re.compile(rf"{re.escape(_OWNER)}\..+"))
def run_task(task: RunningTask, path: str, args: list[Any], kwargs: dict[str, Any], terms: dict[str, Any]) -> Any:
    """Call the function of a task and send Django's signals; that of a coroutine function is awaited on the loop."""
    begun = datetime.now(UTC)
    result = _base.TaskResult(
        task=_task_of(path, terms),
        id=task.run_id,
        status=_Status.RUNNING,
        enqueued_at=datetime.fromisoformat(terms["enqueued"]),
        started_at=begun,
        finished_at=None,
        last_attempted_at=begun,
        args=args,
        kwargs=kwargs,
        backend=terms["backend"],
        errors=[],
        worker_ids=[str(os.getpid())] * task.attempt,
    )
    _send_signal(_signals.task_started, result)
    context = [_base.TaskContext(task_result=result)] if result.task.takes_context else []
    try:
        returned = result.task.func(*context, *args, **kwargs)
        return _awaited(returned, result) if hasattr(returned, "__await__") else _ended(result, returned)
    except BaseException as fault:
        _failed(result, fault)
        raise


async def _awaited(returned: Awaitable[Any], result: Any) -> Any:
    try:
        return _ended(result, await returned)
    except BaseException as fault:
        _failed(result, fault)
        raise


def _ended(result: Any, returned: Any) -> Any:
    value = _normalized(returned)
    _send_signal(
        _signals.task_finished, result, status=_Status.SUCCESSFUL, finished_at=datetime.now(UTC), _return_value=value
    )
    return value


def _failed(result: Any, fault: BaseException) -> None:
    kind = type(fault)
    text = "".join(traceback.format_exception(fault))
    error = _base.TaskError(exception_class_path=f"{kind.__module__}.{kind.__qualname__}", traceback=text)
    _send_signal(_signals.task_finished, result, status=_Status.FAILED, finished_at=datetime.now(UTC), errors=[error])


def _send_signal(signal: Any, result: Any, **changes: Any) -> None:
    for name, value in changes.items():
        object.__setattr__(result, name, value)
    signal.send(type(result.task.get_backend()), task_result=result)
