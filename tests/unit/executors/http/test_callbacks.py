"""Callbacks, and what their signature lets in."""

import pytest

from tokimori.errors import InvalidInput, Refused
from tokimori.executors.http.callbacks import CallbackResult, Callbacks
from tokimori.model.ids import RunId, Token
from tokimori.model.outcome import Outcome, RetryIn, Succeeded

RUN, OTHER, TOKEN = RunId("r1"), RunId("r11"), Token(1)
DONE = b'{"outcome":"succeeded","result":"x"}'


class World:
    """An attempt that waits for its callback."""

    def __init__(self) -> None:
        self.ended: list[Outcome] = []
        self.callbacks = Callbacks()
        self.callbacks.open("http://127.0.0.1:8000/", "s" * 43)
        self.asked = self.callbacks.expect(RUN, TOKEN, self.end)

    def end(self, outcome: Outcome) -> bool:
        """What the executor does."""
        self.ended.append(outcome)
        return True

    def accept(
        self, run: str = RUN, attempt: str = "1", signature: str | None = None, line: bytes = DONE
    ) -> CallbackResult:
        """A callback came."""
        return self.callbacks.accept(run, attempt, self.asked.signature if signature is None else signature, line)


def test_a_signed_callback_ends_its_attempt_once() -> None:
    """The very same once more is answered alike; another one, or one for an attempt that is over, is too late."""
    world = World()
    assert world.asked.address == "http://127.0.0.1:8000/callbacks/r1/1"
    assert [world.accept(), world.accept()] == [CallbackResult.TAKEN, CallbackResult.TAKEN]
    assert world.accept(line=b'{"outcome":"failed","error":"no"}') is CallbackResult.LATE
    assert world.ended == [Succeeded(None, "x")]


@pytest.mark.parametrize("signature", ["", "a" * 64, "é"])
def test_nobody_signs_without_the_secret(signature: str) -> None:
    """A wrong signature changes nothing, whatever it is."""
    world = World()
    assert world.accept(signature=signature) is CallbackResult.FORGED
    assert not world.ended


@pytest.mark.parametrize(("run", "token"), [(OTHER, "1"), ("r1", "2"), ("r", "11"), ("r1", "01"), ("r1", "1/")])
def test_a_signature_is_for_one_run_and_one_token(run: str, token: str) -> None:
    """It opens nothing else, not even where run and token together are the same text."""
    world = World()
    world.callbacks.expect(OTHER, TOKEN, world.end)
    assert world.accept(run, token) is CallbackResult.FORGED
    assert not world.ended


def test_an_attempt_that_is_over_hears_nothing() -> None:
    """Once its run is cancelled or its time over, and where the executor says that another end came first."""
    world = World()
    world.callbacks.forget(RUN, TOKEN)
    assert world.accept() is CallbackResult.LATE
    world.callbacks.expect(RUN, TOKEN, lambda _outcome: False)
    assert [world.accept(), world.accept()] == [CallbackResult.LATE, CallbackResult.LATE]
    assert not world.ended


def test_what_is_not_understood_leaves_the_attempt_waiting() -> None:
    """The service is told what is wrong, and may say it again."""
    world = World()
    for line in (b"", b"done", b'{"outcome":"great"}', b'{"outcome":"retry"}', b"\xff", b"[" * 100_000):
        with pytest.raises(InvalidInput):
            world.accept(line=line)
    assert world.accept(line=b'{"outcome":"retry","in":5}') is CallbackResult.TAKEN
    assert world.ended == [RetryIn(5)]


def test_without_a_door_there_are_no_callbacks() -> None:
    """Nothing is sent that nobody could answer, and no signature is right."""
    callbacks = Callbacks()
    with pytest.raises(Refused):
        callbacks.expect(RUN, TOKEN, lambda _outcome: True)
    assert callbacks.accept(RUN, "1", "", DONE) is CallbackResult.FORGED


def test_another_secret_signs_otherwise() -> None:
    """Who changes the node's secret lets no old callback in, and the secret itself is no signature."""
    world, other = World(), Callbacks()
    other.open("http://127.0.0.1:8000/", "t" * 43)
    assert other.expect(RUN, TOKEN, world.end).signature != world.asked.signature
    assert world.accept(signature="s" * 43) is CallbackResult.FORGED
