"""Commands that may ask their node: each attempt gets its address and a token of its own, which dies as it ends."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from msgspec.structs import replace

from tokimori.clock import Clock
from tokimori.model.access_token import AccessToken, Role, Scope, digest_of, is_text_of, new_text
from tokimori.model.ids import RandomBytes, RunId, Token
from tokimori.model.outcome import Failed
from tokimori.ports.executor import AttemptTask, Ended, Executor, ExecutorAround, Report

_NO_DOOR: Final = "client: this node does not answer over HTTP, and the job asks for it: start it without --no-http"


class RunTokens:
    """Tokens of attempts that run here, known to this node alone. Until `open` there is no HTTP server."""

    def __init__(self, random: RandomBytes) -> None:
        self._random = random
        self._address: str | None = None
        self._known: dict[str, tuple[AccessToken, tuple[RunId, Token]]] = {}

    def open(self, address: str) -> None:
        """Let the node answer at this address from now on."""
        self._address = address

    def admit(self, task: AttemptTask) -> tuple[str, str] | None:
        """Make a token for the attempt; return the node's address and the token, or None without an HTTP server."""
        if self._address is None or task.client is None:
            return None
        name = f"run-{task.run_id}"
        text = new_text(name, self._random)
        scope = Scope(jobs=(task.job_id,), queues=(task.client,), exact=True)
        token = AccessToken(name=name, digest=digest_of(text), role=Role.OPERATE, scope=scope, created=task.due)
        self._known[text] = token, (task.run_id, task.token)
        return f"{self._address}?secret={quote(text)}", text

    def forget(self, run_id: RunId, token: Token) -> None:
        """Revoke the token of this attempt."""
        for text in [text for text, each in self._known.items() if each[1] == (run_id, token)]:
            del self._known[text]

    def bearer(self, text: str) -> AccessToken | None:
        """Return the token of this text; None if it is of no attempt that runs."""
        found = self._known.get(text)
        return found[0] if found is not None and is_text_of(found[0], text) else None


class ClientExecutor(ExecutorAround):
    """Executor that adds the address and a token to attempts of jobs with `client`, before another one runs them."""

    def __init__(self, executor: Executor, tokens: RunTokens, clock: Clock) -> None:
        super().__init__(executor)
        self._tokens, self._clock = tokens, clock

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """See `Executor.start`."""
        if any(task.client is not None for task in tasks):
            tasks = [each for each in map(self._admitted, tasks) if each is not None]
        self._executor.start(tasks)

    def _admitted(self, task: AttemptTask) -> AttemptTask | None:
        if task.client is None:
            return task
        found = self._tokens.admit(task)
        if found is None:
            fault = Failed(_NO_DOOR)
            self._report(Ended(run_id=task.run_id, token=task.token, outcome=fault, at=self._clock.now()))
            return None
        return replace(task, server=found[0], hidden=(*task.hidden, found[1]))

    def _receive_report(self, report: Report) -> None:
        if isinstance(report, Ended):
            self._tokens.forget(report.run_id, report.token)
        self._report(report)
