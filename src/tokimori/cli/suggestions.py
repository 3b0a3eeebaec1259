"""Suggestions for an unknown word of a command line: a command, an option, a value, a name."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import click

from tokimori.spelling import hint, nearest

if TYPE_CHECKING:
    from tokimori.errors import NotFound
    from tokimori.service.service import Service

_OTHER_WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "list": ("ls", "all"),
        "delete": ("rm", "remove", "del", "destroy"),
        "add": ("create", "new"),
        "create": ("add", "new"),
        "set": ("add", "create", "new"),
        "show": ("get", "describe", "info", "view"),
        "update": ("change", "modify"),
        "edit": ("modify", "set"),
        "cancel": ("kill", "abort"),
        "trigger": ("run", "start"),
        "resume": ("unpause", "continue"),
        "revoke": ("delete", "remove", "rm"),
        "lock": ("semaphore", "mutex"),
        "serve": ("start", "server"),
        "logs": ("log", "output"),
        "crontab": ("cron",),
        "cronstable": ("yacron",),
        "kubernetes": ("k8s", "cronjob", "cronjobs"),
    }
)
"""What other programs call a command."""
_OF_OPTIONS: Mapping[str, str] = MappingProxyType({"help": "--help", "version": "tokimori --version"})
"""What other programs have as a command, and this one as an option."""
_MOST_LISTED = 16
"""Number of commands of a group that a message lists; more of them are left to `--help`."""
_MOST_LOOKED_AT = 1_000
"""Number of ids compared that begin as the wrong one does."""


class _Named(Protocol):
    @property
    def name(self) -> str: ...


def command_hint(given: str, known: Sequence[str]) -> str:
    """Return `; did you mean COMMAND?` if one is near, or called so elsewhere; else the commands, if they are few."""
    named = next((name for name in known if given.casefold() in _OTHER_WORDS.get(name, ())), _OF_OPTIONS.get(given))
    if named is not None:
        return f"; did you mean {named}?"
    return hint(given, known) or (f"; there are {', '.join(known)}." if len(known) <= _MOST_LISTED else "")


def usage_message(error: click.UsageError) -> str:
    """Return click's message about a wrong line, with the option or the value that was probably meant."""
    match error:
        case click.NoSuchOption(ctx=click.Context() as context):
            options = [name for each in context.command.params for name in (*each.opts, *each.secondary_opts)]
            return f"No such option {error.option_name!r}{_option_hint(error.option_name, [*options, '--help'])}"
        case click.BadParameter(param=click.Parameter(type=click.Choice(choices=choices)), ctx=click.Context()):
            message = error.format_message()
            given = message.partition(": '")[2].partition("' is not one of")[0]
            return message.rstrip(".") + hint(given, [str(choice) for choice in choices])
        case _:
            return error.format_message()


def _option_hint(given: str, known: Sequence[str]) -> str:
    """Return `; did you mean OPTION?` if one says what this word says to another scheduler, or is near."""
    from tokimori.service.definitions.arguments import ELSEWHERE

    word = ELSEWHERE.get(given.lstrip("-").replace("-", "_"), "")
    if word == "at" and "--at" not in known:
        word = "schedule"  # a request has a moment, and a job its times
    option = {"": "", "parents": "--after"}.get(word, f"--{word.replace('_', '-')}")
    return hint(option, known) or hint(given, known)


async def with_suggestion(service: "Service", fault: "NotFound") -> "NotFound":
    """Return the fault with the name that was probably meant, of a job, calendar, semaphore, secret or token."""
    from tokimori.errors import TokimoriError

    try:
        meant = await _similar_name(service, fault)
    except TokimoriError:  # forbidden to list, or no store: the fault itself is the answer
        meant = None
    if meant is None:
        return fault
    other = copy(fault)
    other.message = f"{fault.message}; did you mean {meant}?"
    other.args = (other.message,)
    return other


async def _similar_name(service: "Service", fault: "NotFound") -> str | None:
    if not isinstance(fault.value, str):
        return None
    if fault.message.startswith("there is no job "):
        return await _job_meant(service, fault.value)
    lists: Mapping[str, Callable[[], Awaitable[Sequence[_Named]]]] = {
        "calendar": service.calendars.list,
        "semaphore": service.semaphores.list,
        "secret": service.secrets.list,
        "token": service.tokens.list,
    }
    if (listed := lists.get(fault.field or "")) is None:
        return None
    return nearest(fault.value, [each.name for each in await listed()])


async def _job_meant(service: "Service", given: str) -> str | None:
    """Return a similar job id.

    Jobs that share the first half of the id are searched first, then those of its first letter, then the first jobs,
    each a bounded list.
    """
    for length in dict.fromkeys((len(given) // 2, 1, 0)):
        prefix = given[:length] or None
        found = await service.jobs.list(prefix=prefix, limit=_MOST_LOOKED_AT)
        if (meant := nearest(given, [job.id for job in found])) is not None:
            return meant
    return None
