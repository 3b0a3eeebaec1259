"""`tokimori task run`"""

import os
import sys

import click

from tokimori.cli.command import CommandWithArguments, arguments_given
from tokimori.cli.session import load
from tokimori.cli.task import tasks_dir


@click.command(cls=CommandWithArguments)
@click.argument("name")
def run(name: str) -> None:
    """Run the source of a task here and now, frozen as a build would be: its exit code is that of this command.

    Nothing is recorded, and no node takes part. It has the environment of this shell, and the task's .env.
    """
    from tokimori.client.opening import make_state_dir
    from tokimori.executors.builds.cache import BuildCache
    from tokimori.model.build import digest_of
    from tokimori.workspace.freezing import content_of_source
    from tokimori.workspace.source import read_source

    source = read_source(tasks_dir(), name)
    content = content_of_source(source)
    state_dir = load(may_ask_elsewhere=True).settings.state_dir
    make_state_dir(state_dir)
    cache, digest = BuildCache(state_dir), digest_of(content)
    cache.keep(digest, content)
    argv = [cache.python_of(digest), "-u", str(cache.file_of(digest)), *(arguments_given() or ())]
    _become(argv, {**os.environ, **source.env})


def _become(argv: list[str], environment: dict[str, str]) -> None:
    """Let the program take the place of this one: its streams, its signals and its exit code are then its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(argv[0], argv, environment)  # noqa: S606 no shell is wanted
