"""What Django asks of a backend of tasks, tried in `examples/django` beside a worker, by `unittest`.

The expectations are those of the backends of django-tasks and of Django 6.
"""

import asyncio
import os
import time
import unittest
import uuid
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import django
from django.core.checks import run_checks
from django.db import connections, transaction
from django.test import override_settings
from django.utils import timezone
from shop import more_tasks, tasks  # type: ignore[import-not-found]  # the example's

from tokimori.django.backends import TokimoriBackend

library: Any = import_module("django_tasks" if django.VERSION < (6, 0) else "django.tasks")
exceptions: Any = import_module(f"{library.__name__}.exceptions")
InvalidTask = getattr(exceptions, "InvalidTask", None) or exceptions.InvalidTaskError
backend = library.default_task_backend
Status = library.TaskResultStatus
LOGGER = library.__name__


def ended(result: Any) -> Any:
    """The result when the task has ended."""
    end = time.monotonic() + 60
    while not result.is_finished:
        assert time.monotonic() < end, result
        time.sleep(0.05)
        result.refresh()
    return result


class BackendTest(unittest.TestCase):
    """A backend that can all that the library knows."""

    def fresh(self, result: Any, task: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        """A result that has not begun."""
        self.assertEqual(
            (result.status, result.task, result.args, result.kwargs, result.backend, result.errors, result.attempts),
            (Status.READY, task, args, kwargs, "default", [], 0),
        )
        self.assertIsNone(result.started_at)
        self.assertIsNone(result.finished_at)
        self.assertIsNotNone(result.enqueued_at)
        with self.assertRaisesRegex(ValueError, "Task has not finished yet"):
            _ = result.return_value

    def test_the_backend_is_ours(self) -> None:
        """The settings name it."""
        self.assertEqual(backend, library.task_backends["default"])
        self.assertIsInstance(library.task_backends["default"], TokimoriBackend)

    def test_enqueue(self) -> None:
        """A result says what was asked for, and nothing else yet: of functions, coroutine functions, from either."""
        for task in (more_tasks.noop, more_tasks.noop_async):
            late = task.using(run_after=timezone.now() + timedelta(hours=1))
            self.fresh(late.enqueue(1, two=3), late, [1], {"two": 3})
            self.fresh(asyncio.run(late.aenqueue()), late, [], {})
            self.fresh(backend.enqueue(late, (1, (2, 3)), {}), late, [1, [2, 3]], {})

    def test_what_can_not_be_json_is_refused(self) -> None:
        """Arguments are JSON."""
        with self.assertRaises(TypeError):
            tasks.add.enqueue(object(), 1)

    def test_results_are_found_again(self) -> None:
        """A result is found by its id, equal to the one that was given, and of its own task alone."""
        late = tasks.add.using(run_after=timezone.now() + timedelta(hours=1), priority=-5)
        result = late.enqueue(1, 2)
        self.assertEqual(backend.get_result(result.id), result)
        self.assertEqual(asyncio.run(tasks.add.aget_result(result.id)), result)
        with self.assertRaises(exceptions.TaskResultMismatch):
            more_tasks.noop.get_result(result.id)

    def test_results_are_refreshed(self) -> None:
        """A result says how its task has ended, with moments in their order."""
        result = ended(tasks.add.enqueue(1, b=2))
        self.assertEqual((result.status, result.return_value, result.attempts), (Status.SUCCESSFUL, 3, 1))
        self.assertLessEqual(result.enqueued_at, result.started_at)
        self.assertLessEqual(result.started_at, result.finished_at)
        self.assertEqual(result.last_attempted_at, result.started_at)
        again = asyncio.run(backend.aget_result(result.id))
        asyncio.run(again.arefresh())
        self.assertEqual(again, result)

    def test_missing_results(self) -> None:
        """There is no result of an unknown id, of what is no id, and of a run that is of no task."""
        for unknown in (str(uuid.uuid4()), "123", tasks.deliver.after("1h").enqueue(1).id):
            with self.assertRaises(exceptions.TaskResultDoesNotExist):
                backend.get_result(unknown)
            with self.assertRaises(exceptions.TaskResultDoesNotExist):
                asyncio.run(backend.aget_result(unknown))

    def test_coroutine_functions_are_awaited(self) -> None:
        """What a coroutine function returns is the result."""
        self.assertEqual(ended(tasks.write.enqueue("me")).return_value, "written to me")

    def test_errors_are_told(self) -> None:
        """The class of an error and its traceback are told, whatever it is, and however many lines it has."""
        for task, kind, text in (
            (more_tasks.fails, ValueError, "ValueError: This task failed\n"),
            (more_tasks.fails_async, ValueError, "ValueError: This task failed\n"),
            (more_tasks.fails_in_its_own_way, more_tasks.OwnError, "shop.more_tasks.OwnError: two\nlines\n"),
            (more_tasks.exits, SystemExit, "SystemExit: This task exits\n"),
            (more_tasks.fails_twice, ValueError, "ValueError: This task failed\n"),
        ):
            with self.subTest(task.name):
                result = ended(task.enqueue())
                self.assertEqual(result.status, Status.FAILED)
                (error,) = result.errors
                self.assertIs(error.exception_class, kind)
                self.assertTrue(error.traceback.endswith(text), error.traceback)
                self.assertTrue(error.traceback.startswith("Traceback (most recent call last)"), error.traceback)
                with self.assertRaisesRegex(ValueError, "Task failed"):
                    _ = result.return_value

    def test_a_value_that_json_does_not_know_is_an_error(self) -> None:
        """A task that returns such a value has failed."""
        (error,) = ended(more_tasks.complex_value.enqueue()).errors
        self.assertIs(error.exception_class, TypeError)

    def test_attempts(self) -> None:
        """An error is tried again as OPTIONS say; a task that wants its context gets it."""
        result = ended(more_tasks.fails.enqueue())
        self.assertEqual(result.attempts, 2, "OPTIONS say so")
        self.assertEqual(ended(more_tasks.context.enqueue(7)).return_value[1:], [1, 7])
        result = ended(more_tasks.context.enqueue(8))
        self.assertEqual(result.return_value[0], result.id)

    def test_validation(self) -> None:
        """Priorities, queues and moments are those that there may be."""
        now = timezone.now()
        for wrong in (
            {"priority": 101},
            {"priority": -101},
            {"priority": 3.1},
            {"queue_name": "unknown"},
            {"run_after": datetime(2030, 1, 1)},
        ):
            with self.subTest(wrong), self.assertRaises(InvalidTask):
                tasks.add.using(**wrong)
        for priority in (-100, 0, 100):
            task = tasks.add.using(priority=priority, run_after=now)
            self.assertEqual(ended(task.enqueue(priority, 0)).return_value, priority)

    def test_a_task_runs_after_its_moment(self) -> None:
        """A task does not begin before the moment for which it was asked."""
        after = timezone.now() + timedelta(seconds=2)
        self.assertGreaterEqual(ended(tasks.add.using(run_after=after).enqueue(1, 2)).started_at, after)

    def test_a_transaction(self) -> None:
        """A task is enqueued exactly if the transaction commits."""
        with transaction.atomic():
            result = tasks.add.enqueue(1, 2)
            self.assertIsNotNone(result.enqueued_at)
            with self.assertRaises(exceptions.TaskResultDoesNotExist):
                backend.get_result(result.id)
        self.assertEqual(ended(result).return_value, 3)
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            lost = tasks.add.enqueue(1, 2)
            with transaction.atomic():
                tasks.add.enqueue(3, 4)
            _ = 1 / 0
        with self.assertRaises(exceptions.TaskResultDoesNotExist):
            backend.get_result(lost.id)

    def test_enqueuing_is_logged_and_signalled(self) -> None:
        """Django's signals tell of each beginning and end, once for each attempt."""
        with self.assertLogs(LOGGER, level="DEBUG") as logs:
            result = tasks.add.enqueue(1, 2)
        (line,) = logs.output
        self.assertIn("enqueued", line)
        self.assertIn(result.id, line)
        done = [ended(task.enqueue()) for task in (more_tasks.noop, more_tasks.noop_async, more_tasks.fails)]
        heard = (Path(os.environ["EXAMPLE"]) / "heard").read_text().splitlines()
        for each, times in zip(done, (1, 1, 2), strict=True):
            said = times * [f"started {each.id} RUNNING", f"finished {each.id} {each.status}"]
            self.assertEqual([line for line in heard if each.id in line], said)

    def test_checks(self) -> None:
        """A project without the app that runs its tasks is told so."""
        self.assertEqual(list(backend.check()), [])
        self.assertEqual(run_checks(), [])
        with override_settings(
            INSTALLED_APPS=[each for each in django.conf.settings.INSTALLED_APPS if "toki" not in each]
        ):
            (error,) = backend.check()
        self.assertIn("tokimori.django", error.hint)
        (error,) = TokimoriBackend("other", {"OPTIONS": {"atempts": 3}}).check()
        self.assertIn("OPTIONS of the backend 'other': atempts", error.msg)

    def tearDown(self) -> None:
        connections.close_all()
