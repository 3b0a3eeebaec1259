"""How rounds are made: everybody in turn, each in a process of its own."""

import gc
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec, TypeVar

from benchmarks.comparison import Figures, Round

P = ParamSpec("P")
T = TypeVar("T")

Measure = Callable[[Path], Figures]
"""Measures one contender once, in an empty folder."""


def in_turn(contenders: Mapping[str, Measure]) -> Callable[[int], Round]:
    """Rounds of these contenders, each measured alone; another one begins each time.

    What disturbs the machine for longer than one of them disturbs them all, and no place in the order favours anybody.
    """
    return partial(one_round, list(contenders), lambda name: alone(contenders[name]))


def one_round(names: Sequence[str], measured: Callable[[str], Figures], number: int) -> Round:
    """The round of this number: who is first in it is last in the next."""
    first = number % len(names)
    figures = {name: measured(name) for name in [*names[first:], *names[:first]]}
    return {name: figures[name] for name in names}


def alone(measure: Measure) -> Figures:
    """The measure taken in a fresh process and an empty folder: nobody inherits another's threads, heap or files."""
    with tempfile.TemporaryDirectory(prefix="tokimori-bench-") as folder:
        os.sync()  # nobody pays for what another has left to be written
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            return process.submit(partial(_collected, measure, Path(folder))).result()


def _collected(measure: Measure, folder: Path) -> Figures:
    gc.collect()
    return measure(folder)
