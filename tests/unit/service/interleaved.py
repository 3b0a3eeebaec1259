"""Calls that are made at the same time on the memory store, carried out step by step, in a given order of the steps."""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from tokimori.errors import TokimoriError

Call = Coroutine[Any, Any, object]


class Choices:
    """Which of the calls goes on, step by step: as said, and from there on the first one."""

    def __init__(self, said: Sequence[int]) -> None:
        self.taken = list(said)
        self.options: list[int] = []
        """Among how many it was chosen."""

    def next(self, options: int) -> int:
        """The place of the one that goes on."""
        step = len(self.options)
        self.options.append(options)
        if step == len(self.taken):
            self.taken.append(0)
        self.taken[step] %= options
        return self.taken[step]

    def others(self) -> list[int] | None:
        """What leads to the next of all orders; None: this was the last one."""
        for step in range(len(self.taken) - 1, -1, -1):
            if self.taken[step] + 1 < self.options[step]:
                return [*self.taken[:step], self.taken[step] + 1]
        return None


def carry_out(calls: Sequence[Call], choices: Choices) -> list[object]:
    """Carry all out, each step up to its next question to the store; their answers, or the errors that they raise."""
    answers: list[object] = [None] * len(calls)
    left = list(range(len(calls)))
    while left:
        number = left[choices.next(len(left)) if len(left) > 1 else 0]
        try:
            calls[number].send(None)
        except StopIteration as end:
            answers[number] = end.value
            left.remove(number)
        except TokimoriError as error:
            answers[number] = error
            left.remove(number)
    return answers


def in_every_order(begin: Callable[[], Sequence[Call]]) -> Iterator[list[object]]:
    """The answers in each of all orders of their steps; `begin` makes the calls, in a world that nobody has touched."""
    said: list[int] | None = []
    while said is not None:
        choices = Choices(said)
        yield carry_out(begin(), choices)
        said = choices.others()
