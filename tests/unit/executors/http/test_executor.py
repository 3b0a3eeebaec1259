"""What sends requests, before it has sent one."""

import asyncio

import pytest

from tests.unit.examples import a_task
from tokimori.executors.http import session
from tokimori.executors.http.executor import HttpAttempt, HttpExecutor
from tokimori.executors.keeper.kernel import boottime
from tokimori.executors.on_loop import LEASE_IS_OVER
from tokimori.model.lease import LEASE
from tokimori.model.outcome import Outcome, Succeeded
from tokimori.model.target import Http
from tokimori.ports.executor import Ended, Report
from tokimori.testing.manual import VirtualClock


async def test_a_session_that_could_not_be_made_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may lack threads for a moment: the next request has one, and the end of the node has no fault."""
    executor, faults = HttpExecutor(VirtualClock()), [RuntimeError("can't start new thread")]

    async def to_thread(act: object, *_: object) -> object:
        if faults:
            raise faults.pop()
        return session

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    with pytest.raises(RuntimeError):
        await executor._opened()
    assert isinstance(await executor._opened(), session.HttpSession)
    await executor.close()


@pytest.mark.parametrize("is_over", [True, False])
async def test_what_comes_when_the_lease_is_over_is_not_sent(is_over: bool) -> None:
    """Its secrets were asked for, and its node was frozen meanwhile: it may be another node's by now."""
    executor, told, sent = HttpExecutor(VirtualClock()), list[Report](), list[HttpAttempt]()

    async def carry_out(attempt: HttpAttempt) -> Outcome:
        sent.append(attempt)
        return Succeeded()

    executor._carry_out = carry_out  # type: ignore[method-assign]
    await executor.open(told.append)
    executor.renew(boottime() - LEASE * is_over)
    executor.start([a_task(Http(url="http://localhost/"))])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    (ended,) = told
    assert isinstance(ended, Ended)
    assert ended.outcome == (LEASE_IS_OVER if is_over else Succeeded())
    assert len(sent) == (not is_over)
