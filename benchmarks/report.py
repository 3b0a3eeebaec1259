"""Results as tables for people and as JSON lines for programs."""

import json
from collections.abc import Iterator

from benchmarks.comparison import TOKIMORI, Quantity, Result, Round, Spread, Trial, Workload


def table(workload: Workload, result: Result) -> str:
    """One trial: a line for each quantity and contender, then the targets."""
    trial = result.trial
    head = ("", "median", "min – max", "unit", "Tokimori is … × as good", "min – max")
    rows = [head, *(row for quantity in trial.quantities for row in _rows(result, quantity))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    title = f"{workload.name} {trial.title} ({len(result.rounds)} rounds)"
    absent = [f"  {contender}: not measured: {why}" for contender, why in trial.absent.items()]
    return "\n".join([title, *lines, *absent, *_targets(result)])


def _rows(result: Result, quantity: Quantity) -> Iterator[tuple[str, ...]]:
    for contender in result.contenders:
        figures, ratio = result.figures(contender, quantity), result.ratio(contender, quantity)
        compared = ("", "") if contender == TOKIMORI else _texts(ratio)
        yield (f"  {quantity.name}: {contender}", *_texts(figures), quantity.unit, *compared)


def _texts(spread: Spread) -> tuple[str, str]:
    return _text(spread.median), f"{_text(spread.low)} – {_text(spread.high)}"


def _text(figure: float) -> str:
    """Three digits that count, and no more zeros than needed."""
    if figure >= 100:
        return f"{figure:,.0f}"
    return f"{figure:.3g}"


def _targets(result: Result) -> Iterator[str]:
    for target in result.trial.targets:
        verdict = "met" if result.met(target) else "NOT MET"
        yield f"  target {target}: {verdict} ({_text(result.reached(target))})"


def round_line(workload: Workload, trial: Trial, number: int, figures: Round) -> str:
    """What one round measured, in one line."""
    told = (
        f"{quantity.name} " + ", ".join(f"{name} {_text(each[quantity.name])}" for name, each in figures.items())
        for quantity in trial.quantities
    )
    return f"{workload.name} {trial.title}: round {number + 1}: {'; '.join(told)}"


def round_json(workload: Workload, trial: Trial, number: int, figures: Round) -> str:
    """The same as an object."""
    return json.dumps({"workload": workload.name, "trial": trial.title, "round": number + 1, "measured": figures})


def json_lines(workload: Workload, result: Result) -> Iterator[str]:
    """One object for each quantity and contender, and one for each target."""
    trial = result.trial
    where = {"workload": workload.name, "trial": trial.title}
    for quantity in trial.quantities:
        for contender in result.contenders:
            samples = [figures[contender][quantity.name] for figures in result.rounds]
            about = {**where, "quantity": quantity.name, "unit": quantity.unit, "contender": contender}
            ratio = None if contender == TOKIMORI else result.ratio(contender, quantity)._asdict()
            figures = result.figures(contender, quantity)._asdict()
            yield json.dumps({**about, "samples": samples, "figures": figures, "times_as_good": ratio})
    for contender, why in trial.absent.items():
        yield json.dumps({**where, "contender": contender, "not_measured": why})
    for target in trial.targets:
        verdict = {"target": str(target), "reached": result.reached(target), "met": result.met(target)}
        yield json.dumps({**where, **verdict})
