"""Picture of the runs of one job over a span: how long they took, and which have failed."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from tokimori.web.words import duration, written

_BASE, _HIGH, _WIDE = 116, 92, 0.72
_BARS: Final = 96
_MOST_NAMED: Final = 3


class Bar(NamedTuple):
    """Runs that began at about the same time, at one of 96 places: the longest length, and how many have failed."""

    place: int
    length: int | None
    runs: int
    failed: int
    says: str


class Mark(NamedTuple):
    """Mark below the bars, at `percent` percent of the span."""

    percent: float
    says: str


def chart(bars: Sequence[Bar], usual: tuple[int, int] | None, marks: Sequence[Mark], says: str) -> Markup:
    """Return the bars over a scale that the usual lengths fill: longer bars are broken, and say their length."""
    lengths = [bar.length for bar in bars if bar.length is not None]
    middle, rarely = usual or (max(lengths, default=1), max(lengths, default=1))
    top = max(round(rarely * 1.2), middle * 2, 1)
    drawn = [f'<line class="hl" x1="0" x2="100%" y1="{_BASE + 0.5}" y2="{_BASE + 0.5}"/>']
    if usual is not None:
        drawn += [f'<line class="s faint" x1="0" x2="100%" y1="{_y(v, top)}" y2="{_y(v, top)}"/>' for v in usual]
    for bar in bars:
        drawn.append(_drawn(bar, top))
    long = sorted((bar for bar in bars if bar.length is not None and bar.length > top), key=_longest)
    drawn += [_label(bar) for bar in long[:_MOST_NAMED]]
    for number, mark in enumerate(marks):
        if 2 < mark.percent < 98:
            odd = " odd" if number % 2 else ""
            drawn.append(f'<text class="m{odd}" x="{mark.percent:.2f}%" y="134">{written(mark.says)}</text>')
    picture = f'<svg width="100%" height="138" role="img" aria-label="{written(says)}">{"".join(drawn)}</svg>'
    return Markup(f'<div class="chart">{picture}{_gutter(usual, top)}</div>')  # noqa: S704  numbers, texts escaped


def _longest(bar: Bar) -> int:
    return -(bar.length or 0)


def _y(length: int, top: int) -> float:
    return round(_BASE - min(length, top) / top * _HIGH, 1)


def _drawn(bar: Bar, top: int) -> str:
    x = round(bar.place / _BARS * 100, 2)
    title = f"<title>{written(bar.says)}</title>"
    if bar.length is None:
        return f'<rect class="f q" x="{x}%" y="{_BASE - 2}" width="{_WIDE}%" height="2">{title}</rect>'
    high = max(2.0, _BASE - _y(bar.length, top))
    red = round(high * bar.failed / bar.runs, 1)
    parts = [_rect("ok", x, _BASE - high, high - red, title)] if red < high else []
    if red:
        parts.append(_rect("bad", x, _BASE - red, red, title))
        parts.append(_rect("bad", x, _BASE + 3, 3))
    if bar.length > top:
        parts.append(f'<rect class="gapped" x="{x}%" y="{_BASE - _HIGH + 10}" width="{_WIDE}%" height="3"/>')
    return "".join(parts)


def _rect(tone: str, x: float, y: float, high: float, inner: str = "") -> str:
    return f'<rect class="f {tone}" x="{x}%" y="{y:.1f}" width="{_WIDE}%" height="{high:.1f}">{inner}</rect>'


def _label(bar: Bar) -> str:
    x, place = (bar.place + 1) / _BARS * 100, "e" if bar.place > 5 else ""
    return f'<text class="{place}" x="{x:.2f}%" y="14">{duration(bar.length or 0)}</text>'


def _gutter(usual: tuple[int, int] | None, top: int) -> str:
    """Return the labels of the lines. Two that are close to each other share one."""
    if usual is None:
        return '<svg width="84" height="138" aria-hidden="true"></svg>'
    middle, rarely = (_y(each, top) for each in usual)
    texts = [(middle, f"median {duration(usual[0])}")]
    if middle - rarely >= 12:
        texts.append((rarely, f"95 %: {duration(usual[1])}"))
    if _BASE - middle >= 12:
        texts.append((_BASE, "0 s"))
    labels = "".join(f'<text y="{y + 4}">{written(text)}</text>' for y, text in texts)
    return f'<svg width="84" height="138" aria-hidden="true">{labels}</svg>'
