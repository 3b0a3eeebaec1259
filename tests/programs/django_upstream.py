"""Django's own tests of its two backends, unchanged, with ours in the place of both: run in `examples/django`.

`tasks/` there is `tests/tasks` of Django's sources. Its `ImmediateBackend` becomes ours whose `enqueue` waits for the
end of the run, beside a worker; its `DummyBackend` ours whose results are listed, in a store on which nobody works.
"""

import logging
import sys
import time
import unittest
from collections.abc import Iterable
from importlib import import_module
from typing import Any, cast

import django
from django.tasks.backends import dummy, immediate  # type: ignore[import-untyped,unused-ignore]

django.setup()
from tokimori.django.backends import TokimoriBackend  # noqa: E402

NOT_OURS = {
    "test_cannot_get_result": "ours gives results",
    "test_cannot_refresh_result": "ours gives results",
    "test_cannot_pass_run_after": "ours knows moments",
    "test_throws_keyboard_interrupt": "an interrupt of a worker is not one of the program that asks",
    "test_enqueue_logs": "of the immediate one: it runs in the worker, where these lines are logged",
    "test_failed_logs": "it runs in the worker, where these lines are logged",
    "test_refresh_result": "changes a result in the memory of the dummy one",
    "test_refresh_result_async": "changes a result in the memory of the dummy one",
    "test_clear": "forgets results in the memory of the dummy one",
    "test_doesnt_wait_until_transaction_commit_by_default": "ours enqueues exactly if the transaction commits",
}


class Waiting(TokimoriBackend):
    """A backend whose `enqueue` returns when the task has ended."""

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Wait for the end; an error is logged, as its worker has done."""
        result, end = super().enqueue(task, args, kwargs), time.monotonic() + 60
        while not result.is_finished:
            assert time.monotonic() < end, result
            time.sleep(0.02)
            result.refresh()
        for error in result.errors:
            logging.getLogger("django.tasks").error("Task id=%s: %s", result.id, error.traceback)
        return result


class Listed(TokimoriBackend):
    """A backend that knows what it was asked for."""

    def __init__(self, alias: str, params: Any) -> None:
        super().__init__(alias, params)
        self.results: list[Any] = []

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """List the result, too."""
        self.results.append(super().enqueue(task, args, kwargs))
        return self.results[-1]

    def clear(self) -> None:
        """Forget the list."""
        self.results.clear()


def main(kind: str) -> None:
    """Run the tests of one of both, and of tasks themselves."""
    if kind == "immediate":
        immediate.ImmediateBackend = Waiting
    else:
        dummy.DummyBackend = Listed
    names = {"immediate": ["test_immediate_backend"], "dummy": ["test_dummy_backend", "test_tasks"]}[kind]
    suite, left_out = unittest.TestSuite(), 0
    for name in names:
        for group in unittest.defaultTestLoader.loadTestsFromModule(import_module(f"tasks.{name}")):
            for test in cast("Iterable[unittest.TestCase]", group):
                method = test.id().rpartition(".")[2]
                ours = method not in NOT_OURS or (method == "test_enqueue_logs" and kind == "dummy")
                left_out += not ours
                suite.addTests([test] if ours else [])
    found = unittest.TextTestRunner(verbosity=2).run(suite)
    print(f"{found.testsRun} ran, {left_out} are of what only theirs does")
    sys.exit(not found.wasSuccessful())


if __name__ == "__main__":
    main(sys.argv[1])
