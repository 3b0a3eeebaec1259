"""`tokimori completion SHELL`"""

import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command
from tokimori.cli.output import print_answer, print_text, write_file
from tokimori.cli.session import in_service
from tokimori.errors import InvalidInput, TokimoriError

if TYPE_CHECKING:
    from tokimori.service.service import Service

_MOST = 100


def job_ids(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return ids of jobs that begin so."""

    async def act(service: "Service") -> Sequence[str]:
        return [job.id for job in await service.jobs.list(prefix=incomplete or None, limit=_MOST)]

    return _found(act)


def run_ids(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the ids of the newest runs that begin so."""

    async def act(service: "Service") -> Sequence[str]:
        found = await service.runs.list(limit=_MOST, longest=0)
        return [run.id for run in found if run.id.startswith(incomplete)]

    return _found(act)


def zones(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return names of time zones that begin so, in any case."""
    from zoneinfo import available_timezones

    return sorted(name for name in available_timezones() if name.lower().startswith(incomplete.lower()))


def _found(act: Callable[["Service"], Awaitable[Sequence[str]]]) -> list[str]:
    """Return the names that `act` finds; none if the store does not answer, since a shell shows no errors."""
    try:
        return list(in_service(act))
    except TokimoriError:
        return []


VARIABLE = "_TOKIMORI_COMPLETE"
"""With it a shell asks for what may follow."""
_PLACES = {
    "bash": ".local/share/bash-completion/completions/tokimori",
    "zsh": ".local/share/zsh/site-functions/_tokimori",
    "fish": ".config/fish/completions/tokimori.fish",
}
"""Where a shell finds it, in the folder of the user."""
_INSTALL = "install"
_ZSH = "zsh reads it when the folder stands in `fpath`, before `compinit`: fpath+=(~/.local/share/zsh/site-functions)"


@click.command(
    cls=Command,
    examples=(
        ("completion install", "for the shell that you use"),
        ("completion bash", "print it, for a place of your own"),
    ),
)
@click.argument("what", metavar="SHELL|install", type=click.Choice([*sorted(_PLACES), _INSTALL]))
@click.argument("shell", required=False, type=click.Choice(sorted(_PLACES)))
@click.option("--install", is_flag=True, help="The same as the word install before the shell.")
def completion(what: str, *, shell: str | None, install: bool) -> None:
    """Make bash, zsh or fish complete commands, options, ids of jobs and runs, and zones.

    With `install` the script is written where the shell looks for it, in your home; else it is printed.
    """
    if what == _INSTALL:
        what, install = shell or _own_shell(), True
    elif shell is not None:
        raise InvalidInput(f"shell: {shell!r} is one too many", field="shell", value=shell, allowed=what)
    _print_or_write(what, install=install)


def _own_shell() -> str:
    """Return the shell of this user, by the variable SHELL. Raises `InvalidInput`."""
    name = Path(os.environ.get("SHELL", "")).name
    if name not in _PLACES:
        known = ", ".join(sorted(_PLACES))
        raise InvalidInput(f"shell: SHELL names {name!r}", field="shell", value=name, allowed=f"one of {known}")
    return name


def _print_or_write(shell: str, *, install: bool) -> None:
    text = _script(shell)
    if not install:
        print_text(text)
        return
    place = Path.home() / _PLACES[shell]
    write_file(place, text)
    print_answer(
        {"shell": shell, "file": str(place)},
        f"wrote {place}; it works in the next shell",
        *([_ZSH] if shell == "zsh" else []),
    )


def completed(program: click.Command) -> int | None:
    """Answer a shell's request for completions with an exit code; None if there is no such request."""
    from click.shell_completion import shell_complete

    asked = os.environ.get(VARIABLE)
    return None if not asked else shell_complete(program, {}, "tokimori", VARIABLE, asked)


def _script(shell: str) -> str:
    from click import shell_completion

    kinds = {
        "bash": shell_completion.BashComplete,
        "fish": shell_completion.FishComplete,
        "zsh": shell_completion.ZshComplete,
    }
    return f"{kinds[shell](click.Group(), {}, 'tokimori', VARIABLE).source()}\n"
