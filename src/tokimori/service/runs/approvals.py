"""Approvals of runs: who may answer, and who has answered."""

from tokimori.clock import format_moment
from tokimori.engine.expire import begun_at_once
from tokimori.errors import Forbidden, NotFound, Refused, StoreUnavailable
from tokimori.model.access_token import Role
from tokimori.model.approval import answered, awaits_approval
from tokimori.model.dependents import root_of
from tokimori.model.ids import RunId, check_uuid
from tokimori.model.policies import Approval
from tokimori.model.run import Run
from tokimori.model.sizes import check_reason
from tokimori.ports.store import Store
from tokimori.service.access import RUN
from tokimori.service.operation import STATE, M, Part, operation
from tokimori.service.shared import Caller
from tokimori.service.store_calls import Now, retried
from tokimori.service.views.runs import Run as RunView


def check_no_question(run: Run) -> None:
    """Refuse to resume a run that waits for an approval: that takes the role of an approver."""
    if awaits_approval(run):
        allowed = f"`tokimori run approve {run.id}`, or `tokimori run refuse {run.id}`"
        raise Refused(f"run {run.id} waits for an approval", field="run", value=run.id, allowed=allowed)


class RunApprovals(Part[M]):
    """Answers to runs that ask if they may begin."""

    _store: Store
    _caller: Caller
    _now: Now

    @operation(Role.OPERATE, RUN, audit=STATE, gives=RunView.made)
    async def approve(self, run_id: str, reason: str | None = None) -> Run:
        """Let a run begin that waits for an approval. Approving it once more changes nothing.

        Raises `Forbidden` without the role of its approver, and to the requester of a run whose job has `four_eyes`;
        `Refused` for a run that asks for nothing, or that somebody has refused.
        """
        return await self._answer(run_id, reason, approved=True)

    @operation(Role.OPERATE, RUN, audit=STATE, gives=RunView.made)
    async def refuse(self, run_id: str, reason: str | None = None) -> Run:
        """Refuse a run that waits for an approval: it ends as failed, and is not tried again.

        Raises what `approve` does, and `Refused` for a run that somebody has approved.
        """
        return await self._answer(run_id, reason, approved=False)

    async def _answer(self, run_id: str, reason: str | None, *, approved: bool) -> Run:
        if reason is not None:
            check_reason("reason", reason)
        run = await self._store.get_run(RunId(check_uuid(run_id, field="run")))
        asked = run.details.approval
        if asked is None:
            message = f"run {run.id} asks for no approval: it is {run.state}"
            raise Refused(message, field="run", value=run.id, allowed="a run that waits for an approval")
        self._check_role(run.id, asked)
        if approved and asked.four_eyes and asked.approved is None:
            await self._check_other(run)
        if awaits_approval(run):
            by, at = self._caller.author, await self._now()
            details = run.details, answered(run.details, approved=approved, by=by, at=at, reason=reason)
            run = await retried(lambda: self._store.resume_run(run.id, details), StoreUnavailable)
            run = await begun_at_once(self._store, run, at)
            asked = run.details.approval or asked
        if asked.approved is not approved:
            raise Refused(_said_before(run, asked), field="run", value=run.id, allowed="a run without an answer")
        return run

    def _check_role(self, run_id: RunId, asked: Approval) -> None:
        role = self._caller.role
        if not role.includes(Role(asked.approver)):
            message = f"run {run_id} is approved and refused by the role {asked.approver}, and yours is {role}"
            raise Forbidden(message, field="role", value=role, allowed=f"a token of the role {asked.approver}")

    async def _check_other(self, run: Run) -> None:
        """Refuse the approval of the person who asked for the run, or for the first run of its family."""
        if (root := root_of(run)).startswith("s:") or self._caller.author is None:
            return
        try:
            first = run if run.details.requested_by else await self._store.get_run(RunId(root))
        except NotFound as fault:
            message = f"run {run.id}: who asked for it is not known, as run {root}, with which it began, is not kept"
            raise Forbidden(f"{message}; refuse it, and ask anew", field="run", value=run.id) from fault
        if first.details.requested_by == self._caller.author:
            message = f"run {run.id}: {self._caller.author} asked for it, and its job wants the approval of another"
            raise Forbidden(message, field="author", value=self._caller.author, allowed="somebody else (four_eyes)")


def _said_before(run: Run, asked: Approval) -> str:
    if asked.approved is None:
        return f"run {run.id} was {run.state} before anybody approved it"
    how = "approved" if asked.approved else "refused"
    by = f" by {asked.by}" if asked.by else ""
    return f"run {run.id} was {how} before{by}{'' if asked.at is None else f', at {format_moment(asked.at)}'}"
