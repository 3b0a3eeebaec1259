"""Needs of attempts before they start: results of parents, and secrets, which are hidden in all reports."""

import asyncio
import base64
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from tokimori.clock import Clock
from tokimori.errors import Refused, StoreError, TokimoriError
from tokimori.executors.keeper.redaction import MASK, redacted
from tokimori.executors.reported import stopped
from tokimori.model.ids import RunId, Token
from tokimori.model.outcome import (
    Cancelled,
    Expired,
    Failed,
    Hold,
    Lost,
    Outcome,
    Released,
    RetryAt,
    RetryIn,
    Spawns,
    Succeeded,
    TimedOut,
)
from tokimori.model.parents import ParentRun, text_of
from tokimori.model.secret import SHORTEST
from tokimori.model.target import Build, Command
from tokimori.model.templates import names_parents, secrets_in
from tokimori.ports.executor import AttemptTask, Ended, Executor, ExecutorAround, ReadParents, Report, StopReason
from tokimori.ports.secrets import OpenSecret, Vault


def needles_of(values: Iterable[str]) -> tuple[str, ...]:
    """Return all that is to be hidden of these values: each, and the ways in which programs show it.

    This hides what is shown by mistake. Somebody who wants to show a value finds a form that is not here.
    """
    return tuple(dict.fromkeys(form for value in values for form in _forms(value)))


def _forms(value: str) -> Iterator[str]:
    """Yield the value, its lines (keys have margins), both as JSON and addresses have them, and base64."""
    lines = [line.strip() for line in value.splitlines()]
    for text in (value, *(line for line in lines if len(line) >= SHORTEST)):
        yield text
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield quote(text, safe="")
    for encoded in _in_base64(value.encode()):
        yield encoded
        yield encoded.replace("+", "-").replace("/", "_")


def _in_base64(value: bytes) -> Iterator[str]:
    """Yield the characters that stand for it alone, wherever in an encoded text it begins (`user:password`)."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + value).decode()
        first, last = -(-8 * before // 6), 8 * (before + len(value)) // 6
        yield encoded[first:last]


def hidden_in(text: str, needles: Sequence[str]) -> str:
    """Return the text with these hidden."""
    found = redacted(_encoded(text), [*map(_encoded, needles)])
    return found.decode(errors="surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def hidden_in_json(line: bytes, needles: Sequence[str]) -> bytes:
    """Return the same of a text that may be JSON, and stays so unless nested deeply: a number becomes a text."""
    found = redacted(line, [*map(_encoded, needles)])
    if found == line or not _is_json(line) or _is_json(found):
        return found
    try:
        return json.dumps(_walked(json.loads(line), needles)).encode()
    except RecursionError:
        return found


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _walked(value: Any, needles: Sequence[str]) -> Any:
    match value:
        case str():
            return hidden_in(value, needles)
        case dict():
            return {hidden_in(key, needles): _walked(each, needles) for key, each in value.items()}
        case list():
            return [_walked(each, needles) for each in value]
        case _:
            return MASK.decode() if any(needle in json.dumps(value) for needle in needles) else value


def hidden_in_outcome(outcome: Outcome, needles: Sequence[str]) -> Outcome:
    """Return the outcome, whose texts hide them."""
    match outcome:
        case Succeeded(result=str(result)):
            kept = hidden_in_json(_encoded(result), needles).decode(errors="surrogateescape")
            return replace(outcome, result=kept)
        case Failed(error=error) | TimedOut(error=error):
            return replace(outcome, error=hidden_in(error, needles))
        case Hold(reason=reason) | Released(reason=reason) | Cancelled(reason=reason) | Lost(reason=reason):
            return replace(outcome, reason=hidden_in(reason, needles))
        case Succeeded() | RetryAt() | RetryIn() | Expired() | Spawns():
            return outcome


log = logging.getLogger(__name__)

PAUSE = 0.5
"""Seconds after which a run goes back whose secrets the store does not give now: it may come again at once."""

Hide = Callable[[Iterable[str]], None]
"""Function that receives what no line of the log may show."""
_Key = tuple[RunId, Token]
_Found = Mapping[str, OpenSecret | TokimoriError]


class SecretExecutor(ExecutorAround):
    """Stands between a node and its executor: tasks whose targets name secrets begin when the vault gave their values.

    One that can't have them ends as failed, and nothing of it starts. So do those that get results of their parents.
    """

    def __init__(self, executor: Executor, vault: Vault, parents: ReadParents, clock: Clock, hide: Hide) -> None:
        super().__init__(executor)
        self._vault, self._parents = vault, parents
        self._clock = clock
        self._hide = hide
        self._waiting: dict[_Key, AttemptTask] = {}
        self._hidden: dict[_Key, tuple[str, ...]] = {}
        self._opening: set[asyncio.Task[None]] = set()

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """See `Executor.start`. Each secret is asked for once, however many of these tasks name it."""
        wanting = {_key_of(task): task for task in tasks if secrets_in(task.target.texts()) or _wants_parents(task)}
        if not wanting:
            self._executor.start(tasks)
            return
        self._waiting |= wanting
        opening = asyncio.get_running_loop().create_task(self._start_with_secrets(list(wanting.values())))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        if at_once := [task for task in tasks if _key_of(task) not in wanting]:
            self._executor.start(at_once)

    async def _start_with_secrets(self, tasks: Sequence[AttemptTask]) -> None:
        names = sorted(frozenset[str]().union(*(secrets_in(task.target.texts()) for task in tasks)))
        found = dict(zip(names, await asyncio.gather(*map(self._opened, names)), strict=True))
        ready, away = [], []
        for task, parents in zip(tasks, await asyncio.gather(*map(self._parents_of, tasks)), strict=True):
            fault = _fault(task, found) or (parents if isinstance(parents, TokimoriError) else None)
            if isinstance(parents, tuple) and fault is None:
                ready.append(self._with_values(with_parents(task, parents), found))
            elif isinstance(fault, StoreError):
                away.append((task, fault))
            else:
                self._end(task, Failed(fault.message if isinstance(fault, TokimoriError) else str(fault)))
        if begun := [task for task in ready if self._waiting.pop(_key_of(task), None) is not None]:
            self._hidden |= {_key_of(task): task.hidden for task in begun}
            self._executor.start(begun)
        if away:
            await asyncio.sleep(PAUSE)
        for task, error in away:
            what = "secrets or results of its parents"
            self._end(task, Released(f"its {what} can't be had now: {error.message}"))

    async def _parents_of(self, task: AttemptTask) -> tuple[ParentRun, ...] | TokimoriError:
        try:
            return tuple(await self._parents(task.parents)) if _wants_parents(task) else ()
        except TokimoriError as fault:
            return fault
        except Exception as fault:  # as below
            log.exception("the results of the parents of run %s could not be read", task.run_id)
            return StoreError(f"they can't be read: {type(fault).__name__}; the log of the node says more")

    async def _opened(self, name: str) -> OpenSecret | TokimoriError:
        try:
            return await self._vault.open(name)
        except TokimoriError as fault:
            return fault
        except Exception as fault:  # whatever it was: a run without a report runs for ever
            log.exception("the secret %s could not be opened", name)
            kind = StoreError if isinstance(fault, OSError | RuntimeError | MemoryError) else Refused
            return kind(f"secret: the node could not open {name!r}: {type(fault).__name__}; its log says more")

    def _with_values(self, task: AttemptTask, found: _Found) -> AttemptTask:
        values = {each.name: each.value for each in _secrets_of(task, found) if isinstance(each, OpenSecret)}
        if not values:
            return task
        hidden = needles_of(values.values())
        self._hide(hidden)
        return replace(task, secrets=values, hidden=(*task.hidden, *hidden))

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """See `Executor.stop`. What still waits for its secrets has not begun."""
        waiting = self._waiting.get((run_id, token))
        if waiting is None:
            self._executor.stop(run_id, token, reason, grace=grace)
        else:
            self._end(waiting, stopped(reason))

    def _end(self, task: AttemptTask, outcome: Outcome) -> None:
        if self._waiting.pop(_key_of(task), None) is not None:
            self._report(Ended(run_id=task.run_id, token=task.token, outcome=outcome, at=self._clock.now()))

    def _receive_report(self, report: Report) -> None:
        if self._hidden and isinstance(report, Ended):
            hidden = self._hidden.pop((report.run_id, report.token), ())
            report = replace(report, outcome=hidden_in_outcome(report.outcome, hidden)) if hidden else report
        self._report(report)

    async def close(self) -> None:
        """See `Executor.close`."""
        for opening in self._opening:
            opening.cancel()
        for task in list(self._waiting.values()):
            self._end(task, stopped(StopReason.RELEASE))
        await self._executor.close()


def _wants_parents(task: AttemptTask) -> bool:
    """Return if it gets results of parents: every command of a child does, else a target that names them."""
    if not task.parents or gets_list(task):
        return bool(task.parents)
    return isinstance(task.target, Command | Build) or names_parents(task.target.texts())


def gets_list(task: AttemptTask) -> bool:
    """Return if the results of all runs that it waited for are its payload."""
    return task.joined == "runs" and task.payload is None


def with_parents(task: AttemptTask, parents: tuple[ParentRun, ...]) -> AttemptTask:
    """Return the task with its parents; their results are its payload if it has waited for all of them."""
    if not gets_list(task):
        return replace(task, parent_runs=parents)
    return replace(task, parent_runs=parents, payload=text_of(parents, joined=task.joined), is_inherited=True)


def _key_of(task: AttemptTask) -> _Key:
    return task.run_id, task.token


def _secrets_of(task: AttemptTask, found: _Found) -> list[OpenSecret | TokimoriError]:
    return [found[name] for name in sorted(secrets_in(task.target.texts()))]


def _fault(task: AttemptTask, found: _Found) -> str | TokimoriError | None:
    """Return why the task can't have its secrets: a missing one says more than a store that is away."""
    faults = [_fault_of(task, each) for each in _secrets_of(task, found)]
    found_faults = [each for each in faults if each is not None]
    return min(found_faults, key=lambda each: isinstance(each, StoreError), default=None)


def _fault_of(task: AttemptTask, found: OpenSecret | TokimoriError) -> str | TokimoriError | None:
    if isinstance(found, TokimoriError):
        return found
    if found.is_for(task.job_id):
        return None
    prefixes = ", ".join(f"{prefix}*" for prefix in found.jobs)
    return (
        f"secret: {found.name!r} is for jobs {prefixes}, and not for {task.job_id!r}: "
        f"`tokimori secret set {found.name} --jobs PREFIX` sets it anew, for others"
    )
