"""Executor of commands: the engine's side, which sends orders to the keeper and makes outcomes of its notices."""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from tokimori.clock import SECOND, Clock, Moment
from tokimori.errors import Bug, Refused
from tokimori.executors.exchange import Exchange, Exchanges
from tokimori.executors.facts import account_for, arguments_of, environment_of, folder_of, own_account
from tokimori.executors.keeper import wire
from tokimori.executors.keeper.kernel import boottime, is_short
from tokimori.executors.keeper.notes import end_what_dead_keepers_left
from tokimori.executors.keeper_post import MOST, Background, CommandAttempt, KeeperPost, KeeperPosts, remove_old_output
from tokimori.executors.keeper_process import KeeperSettings
from tokimori.executors.reported import how, lost_with, outcome_of, said_of, short_of
from tokimori.executors.secrets import hidden_in_json
from tokimori.model.ids import RunId, Token
from tokimori.model.lease import LEASE, LEASE_KILL
from tokimori.model.outcome import Failed, Outcome, Released
from tokimori.model.run import Output, times_since
from tokimori.model.suspicion import COMMON, Judgement, Suspicion, after_death, after_end
from tokimori.model.target import Command
from tokimori.model.templates import with_secrets
from tokimori.ports.executor import AttemptTask, Ended, Grew, Report, Started, StopReason

log = logging.getLogger(__name__)

OUTPUT_LIMIT = 10 * 2**20
"""Bytes of an attempt's output that go to its file before only the end is kept."""
_PAUSE = 0.5
"""Seconds after which it is tried again what this machine lacked files or memory for."""
_MOST_TRIES = 9
"""Number of times that a node which stops reads a report again."""


class CommandExecutor:
    """Runs every command as a child of a keeper: a process of its own, which outlives neither orders nor this one.

    One keeper serves all jobs but those that are suspect of getting keepers killed (`tokimori.model.suspicion`).

    `environ` is the node's environment, of which commands get PATH and LANG. `pidfd` false forces the way by which
    exits are noticed on kernels without pidfd.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        runs_dir: Path,
        state_dir: Path,
        output_limit: int = OUTPUT_LIMIT,
        environ: Mapping[str, str] | None = None,
        pidfd: bool = True,
    ) -> None:
        self._clock = clock
        self._environ = os.environ if environ is None else environ
        self._own = own_account()
        self._settings = KeeperSettings(
            state_dir=state_dir / "keepers", runs_dir=runs_dir, output_limit=output_limit, pidfd=pidfd
        )
        self._exchanges = Exchanges((state_dir / "exchange").absolute())
        self._report: Callable[[Report], None] | None = None
        self._ending = Background()
        self._posts = KeeperPosts(self._settings, self._receive_notice, self._died, self._ending)
        self._numbers: dict[tuple[RunId, Token], tuple[KeeperPost, int]] = {}
        self._lease: wire.Lease | None = None
        self._last = 0
        self._suspicion = Suspicion()
        self._closing = False
        self._forgetting: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None

    async def open(self, report: Callable[[Report], None]) -> None:
        """Start the keeper, which first ends what dead keepers have left. Raises `Refused` if it does not start."""
        self._report = report
        self._exchanges.make()
        await self._posts.begin(COMMON).open()
        self._ending.begin(asyncio.to_thread(self._exchanges.remove_dead))

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """Begin these attempts; one that can't be begun is reported before this returns."""
        orders: dict[KeeperPost, list[wire.Order]] = {}
        for task in tasks:
            try:
                order, exchange = self._order(task)
            except Refused as refusal:
                self._send_report(self._end(CommandAttempt(task), Failed(refusal.message), self._clock.now()))
                continue
            except OSError as fault:
                self._ending.begin(self._hand_back(task, fault))
                continue
            post = self._post_for(task)
            post.attempts[order.number] = CommandAttempt(task, exchange)
            self._numbers[task.run_id, task.token] = (post, order.number)
            orders.setdefault(post, []).append(order)
        for post, theirs in orders.items():
            post.send(theirs, self._lease)

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """End an attempt. The first reason decides its outcome, the shortest grace when it is killed."""
        found = self._numbers.get((run_id, token))
        if found is None:
            return
        post, number = found
        attempt = post.attempts[number]
        attempt.reason = attempt.reason or reason
        post.send([wire.Stop(number, attempt.task.timeout_grace if grace is None else grace)], self._lease)

    def renew(self, sent: float) -> None:
        """Move the lease's deadlines. A keeper that has nothing to watch over is left asleep.

        A node of this folder may have been killed with its keeper: what they left ends before its lease is over.
        """
        self._lease = wire.Lease(sent + LEASE, sent + LEASE_KILL)
        for post in self._posts.values():
            if post.attempts:
                post.send([], self._lease)
        if not self._closing and (self._looking is None or self._looking.done()):
            self._looking = self._ending.begin(asyncio.to_thread(self._end_what_is_left))

    def _end_what_is_left(self) -> None:
        with suppress(OSError):
            end_what_dead_keepers_left(self._settings.state_dir)

    def forget(self, before: Moment) -> None:
        """Remove old output, and what dead nodes have left, in a thread of its own, one at a time."""
        if self._forgetting is None or self._forgetting.done():
            work = asyncio.to_thread(self._forget, before)
            self._forgetting = asyncio.get_running_loop().create_task(work)

    def _forget(self, before: Moment) -> None:
        while remove_old_output(self._settings.runs_dir, before) == MOST and not self._closing:
            pass  # if there are many jobs it is hours until this is asked again, and runs go on writing
        self._exchanges.remove_dead()

    async def close(self) -> None:
        """Kill the remaining attempts and the keepers. Attempts whose ends they could not report are released."""
        self._closing = True
        if self._forgetting is not None:
            await asyncio.wait([self._forgetting])
        posts = list(self._posts.values())
        await asyncio.gather(*self._ending, *(post.close() for post in posts))
        for attempt in [attempt for post in posts for attempt in post.attempts.values()]:
            attempt.began = attempt.began or boottime()  # it may have begun, though nobody has reported it
            self._send_report(self._end(attempt, Released("its node stopped it"), self._clock.now()))
        self._posts.clear()
        self._numbers = {}
        await asyncio.gather(*self._ending)
        self._exchanges.remove()

    # To the keepers

    def _post_for(self, task: AttemptTask) -> KeeperPost:
        """Return the keeper that runs commands of this job; one for suspects starts when it is needed."""
        cell = self._suspicion.cell_of(task.job_id)
        post = self._posts.get(cell)
        if post is None:
            post = self._posts.begin(cell)
            post.open_later(self._suspicion.pause_of(task.job_id))
        return post

    def _order(self, task: AttemptTask) -> tuple[wire.Start, Exchange]:
        """Return the order to begin the attempt, and its files. Raises `Refused`; `OSError` if the node lacks files."""
        command = task.target
        if not isinstance(command, Command):
            raise Bug(f"a {type(command).__name__} was given to the executor of commands")
        command = _with_secrets(command, task.secrets)
        account = account_for(command.user, self._own)
        exchange = self._exchanges.open(task, account, self._own)
        environment = environment_of(task, command, account, self._environ, exchange.variables())
        is_own = account.uid == self._own.uid
        self._last += 1
        start = wire.Start(
            number=self._last,
            argv=arguments_of(command),
            env=environment,
            cwd=folder_of(command, environment, is_own=is_own),
            log=f"{task.run_id}/{task.attempt}.log",
            account=None if is_own else account.credentials(),
            stdin=command.stdin,
            timeout=task.timeout,
            grace=task.timeout_grace,
            lease_bound=task.kill_on_lost_lease,
            or_root=command.cwd is None,
            hidden=task.hidden,
            max_cpu=task.max_cpu,
            max_memory=task.max_memory,
        )
        return start, exchange

    # From the keepers

    def _receive_notice(self, post: KeeperPost, notice: wire.Notice) -> None:
        match notice:
            case wire.ProcessStarted():
                self._started(post, notice)
            case wire.OutputGrew():
                task = post.attempts[notice.number].task
                if (output := self._output(task, notice)) is not None:
                    self._send_report(Grew(run_id=task.run_id, token=task.token, output=output))
            case wire.ProcessEnded():
                self._ended(post, notice)
            case wire.Ready():
                pass

    def _started(self, post: KeeperPost, notice: wire.ProcessStarted) -> None:
        attempt = post.attempts[notice.number]
        attempt.pid, attempt.began = notice.pid, notice.at
        task = attempt.task
        self._send_report(Started(run_id=task.run_id, token=task.token, pid=notice.pid, at=self._moment(notice.at)))

    def _ended(self, post: KeeperPost, notice: wire.ProcessEnded) -> None:
        attempt = post.attempts.pop(notice.number)
        task = attempt.task
        del self._numbers[task.run_id, task.token]
        self._suspicion = after_end(self._suspicion, task.job_id, task.run_id)
        if notice.cause == wire.EndCause.SHORT:
            attempt.began = None  # of another user's command a process was there
        if post.cell != COMMON and not post.attempts and not self._closing:
            del self._posts[post.cell]
            self._ending.begin(post.close())
        try:
            self._report_end(attempt, notice)
        except OSError as fault:
            self._ending.begin(self._report_end_later(attempt, notice, fault))
        except Exception as fault:  # whatever it was: else the channel to the keeper closes, and all that runs is lost
            log.exception("the report of run %s can't be read", task.run_id)
            failed = Failed(f"the node could not read what it reported: {type(fault).__name__}; its log says more")
            self._send_report(self._end(attempt, failed, self._moment(notice.at), notice))

    def _report_end(self, attempt: CommandAttempt, notice: wire.ProcessEnded) -> None:
        """Report the end. Raises `OSError` if the attempt's report can't be read now."""
        task = attempt.task
        reported = None if attempt.exchange is None else attempt.exchange.reported()
        if reported is not None and task.hidden:  # before a part of it is cut off
            reported = hidden_in_json(reported, task.hidden)
        outcome = outcome_of(
            notice, attempt.reason, task.timeout, reported, auto_complete_success=task.auto_complete_success
        )
        self._send_report(self._end(attempt, outcome, self._moment(notice.at), notice))

    async def _report_end_later(self, attempt: CommandAttempt, notice: wire.ProcessEnded, fault: OSError) -> None:
        """Read the report again until it can be read: it says if the attempt has succeeded."""
        log.warning("the report of run %s can't be read; trying again: %s", attempt.task.run_id, fault)
        tries = 0
        while tries < _MOST_TRIES:
            await asyncio.sleep(_PAUSE)
            tries += self._closing
            try:
                self._report_end(attempt, notice)
            except OSError:
                continue
            return
        reason = f"its report can't be read: {fault}"
        self._send_report(self._end(attempt, Released(reason), self._moment(notice.at), notice))

    async def _hand_back(self, task: AttemptTask, fault: OSError) -> None:
        """Hand an attempt back that can't be begun now, after a pause: it may come again at once."""
        reason = f"the files of this attempt can't be made: {fault}"
        if not is_short(fault):  # else its node pauses
            await asyncio.sleep(_PAUSE)
        outcome = short_of(reason) if is_short(fault) else Released(reason)
        self._send_report(self._end(CommandAttempt(task), outcome, self._clock.now()))

    def _output(self, task: AttemptTask, notice: wire.ProcessEnded | wire.OutputGrew) -> Output | None:
        if notice.size == 0:
            return None
        return Output(
            run_id=task.run_id,
            attempt=task.attempt,
            size=notice.size,
            head=b"" if isinstance(notice, wire.OutputGrew) else wire.to_bytes(notice.head),
            tail=wire.to_bytes(notice.tail),
            times=times_since(self._moment(0), wire.to_bytes(notice.times)),
        )

    def _moment(self, at: float) -> Moment:
        """Return the moment of the keeper's seconds since boot; only here do they meet the wall clock."""
        return Moment(self._clock.now() - int((boottime() - at) * SECOND))

    def _end(
        self, attempt: CommandAttempt, outcome: Outcome, at: Moment, notice: wire.ProcessEnded | None = None
    ) -> Ended:
        task = attempt.task
        if attempt.exchange is not None and attempt.exchange.is_theirs:
            self._ending.begin(asyncio.to_thread(attempt.exchange.remove))
        elif attempt.exchange is not None:
            attempt.exchange.remove()
        return Ended(
            run_id=task.run_id,
            token=task.token,
            outcome=outcome,
            at=at,
            started=None if attempt.began is None else self._moment(attempt.began),
            pid=attempt.pid,
            output=None if notice is None else self._output(task, notice),
            cpu=None if notice is None or attempt.began is None else notice.cpu,
            memory=None if notice is None else notice.memory,
        )

    def _send_report(self, report: Report) -> None:
        if self._report is None:
            raise Bug("the executor is not open")
        self._report(report)

    # When a keeper dies

    def _died(self, post: KeeperPost) -> Coroutine[None, None, None]:
        """Judge the jobs that may have killed the keeper; return the end of what it has left."""
        lost, post.attempts = list(post.attempts.values()), {}
        for attempt in lost:
            del self._numbers[attempt.task.run_id, attempt.task.token]
        judged = after_death(self._suspicion, {attempt.task.run_id: attempt.task.job_id for attempt in lost})
        self._suspicion = judged.suspicion
        return self._bury(post, lost, judged)

    async def _bury(self, post: KeeperPost, lost: Sequence[CommandAttempt], judged: Judgement) -> None:
        """End what the keeper has left, and only then report its attempts as lost."""
        pid, status = await post.bury()
        for line in said_of("keeper", f"keeper {pid}", how(pid, status), [attempt.task for attempt in lost], judged):
            log.warning("%s", line)
        for attempt in lost:
            self._send_report(self._end(attempt, lost_with(pid, status, attempt.task, judged), self._clock.now()))


def _with_secrets(command: Command, values: Mapping[str, str]) -> Command:
    """Return the command with the values of its secrets, which is kept nowhere."""
    if not values:
        return command
    return replace(
        command,
        argv=tuple(with_secrets(part, values) for part in command.argv),
        env={name: with_secrets(text, values) for name, text in command.env.items()},
        stdin=None if command.stdin is None else with_secrets(command.stdin, values),
    )
