"""Finding of a check."""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct


class Level(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    WARN = "warn"
    """It works, and may not do so for long, or not as somebody wants it."""
    FAIL = "fail"
    """It does not work."""


class Finding(Struct, frozen=True, kw_only=True):
    """One line of the answer: which check found what, and (`mend`) what to do about it."""

    check: str
    level: Level
    text: str
    mend: str | None = None


class Diagnosis(Struct, frozen=True, kw_only=True):
    """Findings of all checks. `level` is the worst of them."""

    level: Level
    findings: tuple[Finding, ...]


def diagnosis(found: Iterable[Finding]) -> Diagnosis:
    """Return a diagnosis of these findings, with the worst of their levels."""
    findings = tuple(found)
    levels = {each.level for each in findings}
    worst = next((level for level in (Level.FAIL, Level.WARN) if level in levels), Level.OK)
    return Diagnosis(level=worst, findings=findings)


def fine(check: str, text: str) -> Finding:
    """Return a finding that nothing is wrong."""
    return Finding(check=check, level=Level.OK, text=text)


def warning(check: str, text: str, mend: str) -> Finding:
    """Return a finding that needs attention soon."""
    return Finding(check=check, level=Level.WARN, text=text, mend=mend)


def failure(check: str, text: str, mend: str) -> Finding:
    """Return a finding that something does not work."""
    return Finding(check=check, level=Level.FAIL, text=text, mend=mend)
