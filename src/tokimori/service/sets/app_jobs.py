"""Jobs that an app declares in its code: they are put in the store, and follow the code, but never an edit by hand."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from hashlib import sha256
from typing import Any, Literal, NamedTuple, cast

from msgspec import Struct

from tokimori.errors import AlreadyExists, Conflict, InvalidInput, NotFound, Refused
from tokimori.model.dependents import check_acyclic
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState, edges_of
from tokimori.model.target import Function
from tokimori.service.definitions.arguments import JobArguments
from tokimori.service.definitions.definitions import definition_from, fields_of
from tokimori.service.definitions.differences import (
    APPS,
    DeclarationState,
    DeclaredDigests,
    declaration_state,
    differences,
    digest_of,
    version_order,
    without_count,
)
from tokimori.service.documents import Documents
from tokimori.service.jobs.jobs import Jobs
from tokimori.service.operation import Inside
from tokimori.service.sets.turns import SetTurn, turn_at
from tokimori.service.shared import Shared
from tokimori.service.store_calls import retried

Vanished = Literal["report", "pause", "delete"]
_NO_VERSION = "''"
"""Words for no version on a command line: 0 is greater than none."""
_PAUSE = 0.25
_MOST_TRIES = 160
"""Before each but the first there is a pause, in seconds: longer than a lease, all in all."""


class Declared(Struct, frozen=True, kw_only=True):
    """The jobs of an app as its code declares them, by id, with the fields that `add` takes."""

    app: str
    jobs: Mapping[str, Mapping[str, Any]]
    vanished: Vanished = "report"
    version: str = ""


class _At(NamedTuple):
    """Place of the declarations of an app, and the turn in which they change."""

    app: str
    jobs: Jobs[Inside]
    turn: SetTurn

    async def changing(self) -> Jobs[Inside]:
        """Return the jobs for the next change."""
        return self.jobs._on(await self.turn.store())


async def declare(jobs: Jobs[Inside], declared: Declared) -> Sequence[str]:
    """Add new jobs, update changed ones, and report, pause or delete vanished ones. Return lines for people.

    Nodes that declare at the same time take turns to write. A job that was edited since its declaration stays as it is.
    Raises `StoreError`, `Conflict` if another turn does not end, and `InvalidInput` for a job that can't be added.
    """

    async def act() -> Sequence[str]:
        shared = jobs._shared
        async with turn_at(shared, jobs._caller.author, f"app/{declared.app}") as turn:
            return await _declare(_At(declared.app, jobs, turn), Documents(shared.store, APPS, shared.random), declared)

    for _ in range(_MOST_TRIES):
        with suppress(Conflict):
            return await act()
        await asyncio.sleep(_PAUSE)
    return await act()


async def _declare(at: _At, documents: Documents[DeclaredDigests], declared: Declared) -> Sequence[str]:
    """Declare the jobs in this turn, which begins with the first change."""
    parts = await documents.list(f"{declared.app}/")
    known = {job_id: digest for part in parts for job_id, digest in part.jobs.items()}
    newest = _newest(parts)
    if (outdated := _outdated(declared, newest)) is not None:
        return [outdated]
    if declared.version != newest:
        its = DeclaredDigests(jobs={}, version=declared.version)
        await documents.at(await at.turn.store()).put(f"{declared.app}/version", its)
    lines: list[str] = []
    now_known = dict(known)
    for job_id in _in_order(declared.jobs):
        terms = {"owner": declared.app, **declared.jobs[job_id]}
        wanted = digest_of(definition_from(without_count(terms), time_zone=at.jobs._caller.time_zone))
        try:
            line = await _put(at, job_id, terms, wanted, known.get(job_id))
        except InvalidInput:
            check_circles(declared.jobs)
            raise
        if line is None:
            now_known[job_id] = wanted
        else:
            lines.append(line)
    gone = [job_id for job_id in known if job_id not in declared.jobs]
    lines += [line for job_id in gone if (line := await _vanish(at, job_id, declared, now_known)) is not None]
    changed = {job_id for job_id in {*known, *now_known} if known.get(job_id) != now_known.get(job_id)}
    if changed:
        guarded = documents.at(await at.turn.store())
        await _remember(guarded, declared.app, {job_id: now_known.get(job_id) for job_id in sorted(changed)})
    return lines


def named_in(fields: Mapping[str, Any]) -> Sequence[str]:
    """Return the jobs that must exist before one with these fields: those that it follows, and that of its failures."""
    failing = fields.get("on_failure_job")
    return [*(each["job"] for each in fields.get("parents", ())), *([failing] if failing else [])]


def check_circles(jobs: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise `InvalidInput` naming jobs that would run after themselves: alone, each would only miss another one."""
    linked = {JobId(job_id): without_count(fields) for job_id, fields in jobs.items() if named_in(fields)}
    check_acyclic(edge for job_id, fields in linked.items() for edge in edges_of(job_id, definition_from(fields)))


def _in_order(jobs: Mapping[str, Mapping[str, Any]]) -> Sequence[str]:
    """Return the ids, each behind those that it names: code declares them in any order. Circles, refused, are last."""
    named = {job_id: [each for each in named_in(fields) if each in jobs] for job_id, fields in jobs.items()}
    sorter, found = TopologicalSorter(named), list[str]()
    with suppress(CycleError):
        sorter.prepare()
    while ready := sorter.get_ready():
        found += ready
        sorter.done(*ready)
    return [*dict.fromkeys([*found, *jobs])]


def _newest(parts: Sequence[DeclaredDigests]) -> str:
    """Return the newest version of the app that has declared jobs; "": none had a version."""
    return max((part.version for part in parts), key=version_order, default="")


def _outdated(declared: Declared, newest: str) -> str | None:
    """Return a line for people if a newer version of the app has declared its jobs, which then follow that version."""
    if version_order(declared.version) >= version_order(newest):
        return None
    mine = f"version {declared.version}" if declared.version else "which has no version,"
    return (
        f"the app {declared.app}, {mine} changes no schedule and no job: version {newest} has declared them; "
        f"to go back, give this code a greater one: App({declared.app!r}, version=…), or say "
        f"{_way_back(declared.app, declared.version)} and start it again"
    )


def _way_back(app: str, version: str) -> str:
    """Return the command that lets code of this version, or without one, declare the jobs again."""
    return f"`tokimori app version {app} {version or _NO_VERSION}`"


async def version_followed(shared: Shared, app: str, version: str | None = None) -> str:
    """Return the version that the jobs of the app follow, "" if it has none; with a `version` they follow that first.

    An older one lets older code declare the jobs again, when it starts. Raises `InvalidInput`.
    """
    documents = Documents(shared.store, APPS, shared.random)
    if version is not None:
        version_order(version)
        await documents.put(f"{app}/version", DeclaredDigests(jobs={}, version=version))
    return _newest(await documents.list(f"{app}/"))


async def check_newest(shared: Shared | None, app: str, version: str, job_id: str) -> None:
    """Check that no newer version of the app has declared its jobs, without this one. Raises `NotFound`.

    Without access to the store, as over HTTP, nobody knows.
    """
    newest = "" if shared is None else await version_followed(shared, app)
    if version_order(version) < version_order(newest):
        raise NotFound(
            f"there is no job {job_id!r}: version {newest} of the app {app} has declared its jobs, without this one, "
            f"and this code {f'is version {version}' if version else 'has none'}",
            field="id",
            value=job_id,
            allowed=f"code of version {newest}; or {_way_back(app, version)}, to go back",
        )


async def forecast_of(jobs: Jobs[Inside], declared: Declared) -> Sequence[tuple[str, str, str]]:
    """Return what `declare` would do: a mark, the id of a job and a sentence, for each job that does not stay.

    The marks are `+` for a new job, `~` for a changed one, `-` for one that the code no longer declares, and `!` for
    one that stays although the code differs. Nothing is changed.
    """
    shared, forecast = jobs._shared, list[tuple[str, str, str]]()
    parts = await Documents(shared.store, APPS, shared.random).list(f"{declared.app}/")
    known = {job_id: digest for part in parts for job_id, digest in part.jobs.items()}
    if (outdated := _outdated(declared, _newest(parts))) is not None:
        return [("!", declared.app, outdated)]
    for job_id, fields in declared.jobs.items():
        terms = {"owner": declared.app, **fields}
        new = definition_from(without_count(terms), time_zone=jobs._caller.time_zone)
        try:
            job = await jobs.get(job_id)
        except NotFound:
            forecast.append(("+", job_id, "it is new"))
            continue
        state = declaration_state(job.definition, digest_of(new), known.get(job_id) or _declared_elsewhere(job, terms))
        if job.definition.declared is not None or state in (DeclarationState.STRANGE, DeclarationState.EDITED):
            forecast.append(("!", job_id, _left_alone(job, state, terms)))
        elif state is DeclarationState.AS_DECLARED:
            fields_changed = ", ".join(each.field for each in differences(job.definition, new))
            forecast.append(("~", job_id, f"it changes: {fields_changed}"))
        elif _is_back(job, declared.app):
            forecast.append(("~", job_id, "it is resumed, as it is declared again"))
    for job_id in known.keys() - declared.jobs.keys():
        with suppress(NotFound):
            forecast.append(("-", job_id, _on_vanishing(await jobs.get(job_id), declared, known.get(job_id))))
    return sorted(forecast, key=lambda each: each[1])


def _undeclared(job_id: str, app: str) -> str:
    return f"job {job_id} is not declared by the app {app} any more"


def _is_back(job: Job, app: str) -> bool:
    """Return if the app has paused the job while its code did not declare it."""
    return job.state is JobState.PAUSED and job.reason == _undeclared(job.id, app)


def _on_vanishing(job: Job, declared: Declared, known: str | None) -> str:
    """Return the sentence about a job that the app no longer declares."""
    what = _undeclared(job.id, declared.app)
    if job.definition.declared is not None or digest_of(job.definition) != known:
        return f"{what}, but was edited by hand or is of a set: it stays as it is"
    match declared.vanished:
        case "report" if job.state is JobState.ENABLED and job.definition.schedule is not None:
            return (
                f"{what}, STAYS ENABLED and still becomes due by its schedule, which no code serves: "
                f'`tokimori job delete {job.id}`, or App(prune="pause") or "delete"'
            )
        case "report":
            return f"{what}, and stays {job.state}: `tokimori job delete {job.id}` deletes it"
        case "pause":
            return f"{what}: it is paused"
        case "delete":
            return f"{what}: it is deleted"


async def _remember(documents: Documents[DeclaredDigests], app: str, changes: Mapping[str, str | None]) -> None:
    """Store the digests of declared jobs, and delete those that are None. What another node stored meanwhile stays."""
    parts: dict[str, dict[str, str | None]] = {}
    for job_id, digest in changes.items():
        parts.setdefault(_part_of(app, job_id), {})[job_id] = digest
    for part, its in parts.items():
        await _change(documents, part, its)


def _part_of(app: str, job_id: str) -> str:
    """Return the document that has the job: one of sixteen, as one has no room for all jobs of a large app."""
    return f"{app}/{sha256(job_id.encode()).hexdigest()[0]}"


async def _change(documents: Documents[DeclaredDigests], part: str, changes: Mapping[str, str | None]) -> None:
    def changed(known: DeclaredDigests) -> DeclaredDigests:
        now = {**known.jobs, **changes}
        return DeclaredDigests(jobs={job_id: digest for job_id, digest in now.items() if digest is not None})

    try:
        await documents.change(part, changed)
    except NotFound:
        try:
            await documents.add(part, changed(DeclaredDigests(jobs={})))
        except AlreadyExists:
            await documents.change(part, changed)


async def _put(at: _At, job_id: str, said: Mapping[str, Any], wanted: str, known: str | None) -> str | None:
    """Update one job to its declaration; return a line for people if it stays as it is."""

    async def act() -> str | None:
        try:
            job = await at.jobs.get(job_id)
        except NotFound:
            await (await at.changing()).add(job_id, **cast(JobArguments, said))
            return None
        state = declaration_state(job.definition, wanted, known or _declared_elsewhere(job, said))
        if job.definition.declared is not None or state in (DeclarationState.STRANGE, DeclarationState.EDITED):
            return _left_alone(job, state, said)
        if state is DeclarationState.AS_DECLARED:
            await (await at.changing()).update(job_id, **cast(JobArguments, _changes(job, said)))
        if _is_back(job, at.app):
            await (await at.changing()).resume(job_id)
        return None

    return await retried(act, AlreadyExists, Conflict)


def _declared_elsewhere(job: Job, said: Mapping[str, Any]) -> str | None:
    """Return the digest of a job that another program of the app added with its request, if it is unedited since."""
    theirs = (job.version, job.definition.owner, job.definition.target)
    return digest_of(job.definition) if theirs == (1, said["owner"], Function(name=said.get("function", ""))) else None


def _changes(job: Job, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that gives the job the declared fields. Fields no longer declared get their defaults."""
    old = dict[str, Any](fields_of(job.definition))
    changes: dict[str, Any] = {name: None for name in old if name not in said and name != "time_zone"}
    for name, value in without_count(said).items():
        before = old.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            changes[name] = {**{key: None for key in before if key not in value}, **value}
        elif value != before:
            changes[name] = value
    return changes


def _left_alone(job: Job, state: DeclarationState, said: Mapping[str, Any]) -> str:
    target, suffix = job.definition.target, f".{job.id}"
    name = target.name if isinstance(target, Function) else ""
    if state is DeclarationState.STRANGE and name.endswith(suffix) and name != said.get("function"):
        other = f"the app {name.removesuffix(suffix)} has added it, whose code its runs carry out"
        return f"job {job.id} is declared by the app, but {other}: give one of the two another id (@app.job(id=…))"
    did = "it was edited by hand since" if state is DeclarationState.EDITED else "somebody else has added it"
    if job.definition.declared is not None:
        did = f"the set {job.definition.declared.set} declares it, too"
    return (
        f"job {job.id} is declared by the app, but {did}: it stays as it is "
        f"(`tokimori job delete {job.id}`, and the app's is added at its next start)"
    )


async def _vanish(at: _At, job_id: str, declared: Declared, now_known: dict[str, str]) -> str | None:
    """Handle a job that the app does not declare any more; return a line for people."""
    try:
        job = await at.jobs.get(job_id)
    except NotFound:
        now_known.pop(job_id, None)
        return None
    line = _on_vanishing(job, declared, now_known.get(job_id))
    if job.definition.declared is not None or digest_of(job.definition) != now_known.get(job_id):
        return line
    if declared.vanished == "pause" and job.state is not JobState.PAUSED:
        await (await at.changing()).pause(job_id, _undeclared(job_id, declared.app))
    if declared.vanished == "delete":
        try:
            await (await at.changing()).delete(job_id)
        except Refused as fault:
            return f"{line.partition(': it is deleted')[0]}: {fault.message}"
        now_known.pop(job_id, None)
    return line


def check_vanished(word: str) -> Vanished:
    """Return the word if it is one of `Vanished`. Raises `InvalidInput`."""
    if word not in ("report", "pause", "delete"):
        raise InvalidInput(
            f"prune: {word!r} is not allowed", field="prune", value=word, allowed="report, pause, delete"
        )
    return cast(Vanished, word)
