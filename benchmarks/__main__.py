"""`python -m benchmarks`: every workload, every contender, in ratios."""

import argparse
import sys
from collections.abc import Callable, Sequence

from benchmarks.comparison import Result, Round, Trial, Workload
from benchmarks.report import json_lines, round_json, round_line, table
from benchmarks.workloads import (
    blocked,
    commands,
    door,
    door_beside_slow,
    door_creates,
    drain,
    functions,
    handles,
    idle,
    lateness,
    next_fire,
    on_mariadb,
    on_postgres,
    on_redis,
    postgres_drain,
    postgres_fire,
    rates,
    start,
    stored,
)

WORKLOADS: Sequence[Workload] = (
    drain.WORKLOAD,
    postgres_drain.WORKLOAD,
    lateness.WORKLOAD,
    postgres_fire.WORKLOAD,
    commands.WORKLOAD,
    idle.WORKLOAD,
    stored.WORKLOAD,
    Workload("W8", "next moments, start", lambda quick: [*next_fire.trials(quick), start.trial(quick)]),
    on_redis.WORKLOAD,
    on_mariadb.WORKLOAD,
    blocked.WORKLOAD,
    on_postgres.WORKLOAD,
    door.WORKLOAD,
    functions.WORKLOAD,
    door_creates.WORKLOAD,
    door_beside_slow.WORKLOAD,
    rates.WORKLOAD,
    handles.HANDLES,
    handles.ENQUEUED,
)


def main(arguments: Sequence[str]) -> int:
    """Measure and print. 1: `--check` was asked for and a target is not met."""
    options = _options(arguments)
    all_met = True
    for workload in options.workload:
        for trial in workload.trials(options.quick):
            if options.trial not in trial.title:
                continue
            say = round_json if options.json else round_line
            result = _measured(workload, trial, options.rounds, say)
            lines = json_lines(workload, result) if options.json else [table(workload, result) + "\n"]
            print(*lines, sep="\n", flush=True)
            all_met &= all(result.met(target) for target in trial.targets)
    return 1 if options.check and not all_met else 0


def _measured(
    workload: Workload, trial: Trial, rounds: int, say: Callable[[Workload, Trial, int, Round], str]
) -> Result:
    """Each round is told at once: whoever is cut short has measured what went before."""
    measured: list[Round] = []
    for number in range(min(rounds, trial.most_rounds)):
        measured.append(trial.measure(number))
        print(say(workload, trial, number, measured[-1]), flush=True)
    return Result(trial, measured)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    described = ", ".join(f"{each.name} {each.title}" for each in WORKLOADS)
    parser.add_argument("--workload", type=_workloads, default=WORKLOADS, metavar="W1,W8", help=described)
    parser.add_argument("--trial", default="", metavar="TEXT", help="only trials whose title has this text")
    parser.add_argument("--rounds", type=_positive, default=5, help="how often everybody is measured (default: 5)")
    parser.add_argument("--quick", action="store_true", help="smaller, and so less to be trusted")
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    parser.add_argument("--check", action="store_true", help="exit 1 when a target is not met")
    return parser.parse_args(arguments)


def _workloads(text: str) -> list[Workload]:
    named = {each.name: each for each in WORKLOADS}
    try:
        return [named[name] for name in text.upper().split(",")]
    except KeyError as unknown:
        raise argparse.ArgumentTypeError(f"{unknown} is none of {', '.join(named)}") from None


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
