"""Results of parents: what a run is given of the runs after whose ends it was made. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import JobId, RunId
from tokimori.model.run import Run
from tokimori.model.templates import PARENT, PARENT_JSON
from tokimori.model.transitions import RunState

MOST_RESULTS = 2**20
"""Bytes of the results that a run is given of all its parents; of further ones it learns how to read them."""


class ParentRun(Struct, frozen=True, kw_only=True):
    """A run after whose end another one was made. `result` is JSON, or a text of a command.

    `left_out`: the command that shows its result, which is beyond `MOST_RESULTS`, or not within the caller's scope.
    """

    id: RunId
    job_id: JobId
    state: RunState
    ended: Moment | None = None
    result: str | None = None
    left_out: str | None = None


def without_result(parent: ParentRun) -> ParentRun:
    """Return the parent with the way to read its result in place of that."""
    return replace(parent, result=None, left_out=f"tokimori run show {parent.id}")


def parents_in(runs: Iterable[Run]) -> list[ParentRun]:
    """Return the runs as parents, with as many of their results as a run is given, the first ones first."""
    found, left = [], MOST_RESULTS
    for run in runs:
        parent = ParentRun(id=run.id, job_id=run.job_id, state=run.state, ended=run.ended, result=run.result)
        size = len((run.result or "").encode())
        found.append(parent if size <= left else without_result(parent))
        left -= size if size <= left else 0
    return found


def text_of(parents: Sequence[ParentRun], *, joined: str) -> str | None:
    """Return the results as one text: that of the only parent as it is, those of a join as an object, by job.

    Those of "runs" that were requested together are a list, in their order. Of several runs of one job the newest
    counts. A result that is left out is an object with `run` and `read`.
    """
    if not joined:
        if not parents:
            return None
        return parents[0].result if parents[0].left_out is None else _json(parents[0])
    if joined == "runs":
        return f"[{','.join(map(_json, parents))}]"
    return "{" + ",".join(f"{json.dumps(job)}:{_json(each)}" for job, each in by_job(parents).items()) + "}"


def by_job(parents: Iterable[ParentRun]) -> Mapping[JobId, ParentRun]:
    """Return the parents by their jobs."""
    return {each.job_id: each for each in parents}


def facts_of_parents(parents: Sequence[ParentRun], *, joined: str) -> dict[str, str]:
    """Return what templates may name of them (`parent.result`, `parent.JOB.result`), plain and as JSON."""
    whole = text_of(parents, joined=joined)
    texts = {"result": "null" if whole is None else _as_json(whole)}
    texts |= {f"{job}.result": _json(each) for job, each in by_job(parents).items()}
    plain = {f"{PARENT}{name}": _plain(text) for name, text in texts.items()}
    return plain | {f"{PARENT_JSON}{name}": text for name, text in texts.items()}


def _json(parent: ParentRun) -> str:
    if parent.left_out is not None:
        return json.dumps({"run": parent.id, "read": parent.left_out})
    return "null" if parent.result is None else _as_json(parent.result)


def _as_json(text: str) -> str:
    """Return a result as JSON: a text of a command that is none becomes a string."""
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return json.dumps(text)
    return text


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _plain(text: str) -> str:
    """Return JSON as people write it: a string without its quotes, nothing for null."""
    bare = text.strip()
    if bare.startswith('"'):
        return str(json.loads(bare)).encode(errors="replace").decode()
    return "" if bare == "null" else bare
