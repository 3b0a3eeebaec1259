"""`manage.py tokimori …`: the command line of Tokimori, with the settings of the project."""

import os
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from tokimori.cli.errors import run
from tokimori.cli.main import main, program
from tokimori.django.jobs import environment


class ManageCommand(BaseCommand):  # type: ignore[misc]  # Django says no types
    """The command line of Tokimori on the project's store; `serve` and `worker` run the functions of all `tasks.py`."""

    help = "Tokimori: serve, worker, job list, run list, …"

    def run_from_argv(self, argv: list[str]) -> None:
        """Be the program `tokimori`, whose options are its own but `--settings` and `--pythonpath`."""
        parser = ArgumentParser(add_help=False, allow_abbrev=False)
        for name in ("--settings", "--pythonpath"):  # which Django has heeded by now
            parser.add_argument(name)
        _prepare()
        main(parser.parse_known_args(argv[2:])[1])

    def handle(self, *args: Any, **_: Any) -> None:
        """Carry out a command line for `call_command("tokimori", "job", "list")`. Raises SystemExit if it fails."""
        _prepare()
        if code := run(program, [str(each) for each in args]):
            sys.exit(code)

    def add_arguments(self, parser: Any) -> None:
        """Take all words as they are."""
        parser.add_argument("args", nargs="*")


Command = ManageCommand
"""The name by which Django looks for it."""


def _prepare() -> None:
    """Say in the environment, which this process and its children read, what the settings of the project say."""
    own = {"TOKIMORI_APP_LOAD": "tokimori.django.worker:app", "TOKIMORI_APP_INCLUDE": os.path.realpath(sys.path[0])}
    for name, value in (own | environment()).items():
        os.environ[name] = os.environ.get(name) or value
