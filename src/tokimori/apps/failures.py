"""Rules of a function for what it raises: which errors are tried again, and after how long."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tokimori.apps.arguments import UnfitPayload
from tokimori.errors import InvalidInput, Permanent
from tokimori.model.outcome import Failed
from tokimori.service.validation import Span, seconds_of

Errors = type[BaseException] | tuple[type[BaseException], ...]
Backoff = Callable[[int, BaseException], Span | None]
"""Returns the wait before the next attempt, after the attempt of this number raised this; None: as the job says."""
Backoffs = Backoff | float | Literal["fixed", "linear", "exponential"]
_WORDS = {"fixed": 1, "exponential": 2}
_ALLOWED = (
    "fixed, linear, exponential, a number from 1 by which each wait grows, or a function of attempt and error that "
    "returns a length of time"
)


@dataclass(frozen=True, slots=True)
class FailureRule:
    """Rule of one function. `retry_on` None: every error is tried again but those of `never_on`.

    A group of errors, as a `TaskGroup` raises, is tried again if each of them is.
    """

    retry_on: tuple[type[BaseException], ...] | None = None
    never_on: tuple[type[BaseException], ...] = ()
    backoff: Backoff | None = None

    def judge(self, words: str, attempt: int, error: BaseException, log: Callable[[BaseException], None]) -> Failed:
        """Return the failure that `error` means. What `backoff` itself raises goes to `log`; then the job decides."""
        within = _within(error)
        if any(isinstance(each, (Permanent, UnfitPayload, *self.never_on)) for each in (error, *within)):
            return Failed(words, final=True)
        wanted = BaseException if self.retry_on is None else self.retry_on
        if not isinstance(error, wanted) and not all(isinstance(each, wanted) for each in within):
            return Failed(words, final=True)
        if self.backoff is None:
            return Failed(words)
        try:
            wait = self.backoff(attempt, error)
            return Failed(words, wait=None if wait is None else seconds_of("backoff", wait))
        except BaseException as fault:  # else nobody would receive the end of the attempt
            log(fault)
            return Failed(words)


def _within(error: BaseException) -> list[BaseException]:
    """Return the errors of a group, and of the groups in it; the error itself if it is none."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [inner for each in error.exceptions for inner in _within(each)]


ANY = FailureRule()
"""The rule of a function that states none."""


def rule_of(fields: dict[str, Any]) -> FailureRule:
    """Take the rule out of the fields of a declared job; a `backoff` in words becomes one of its fields.

    Raises `InvalidInput`.
    """
    given = fields.get("retry")
    retry = given if isinstance(given, Mapping) else {}
    retry_on, never_on, backoff = (fields.pop(name, None) for name in ("retry_on", "never_on", "backoff"))
    rule = FailureRule(
        None if retry_on is None else _errors("retry_on", retry_on),
        () if never_on is None else _errors("never_on", never_on),
        None if backoff is None else _backoff(backoff, fields, retry),
    )
    attempts = fields.get("attempts") or retry.get("attempts", 1)
    if (rule.retry_on is not None or backoff is not None) and attempts == 1:
        name, value = ("backoff", backoff) if rule.retry_on is None else ("retry_on", retry_on)
        message = f"{name}: nothing is tried again, as the job has one attempt"
        raise InvalidInput(message, field=name, value=value, allowed=f"{name} beside attempts of at least 2")
    return rule


def _errors(field: str, given: object) -> tuple[type[BaseException], ...]:
    errors = tuple(given) if isinstance(given, tuple | list | set | frozenset) else (given,)
    for each in errors:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            message = f"{field}: {each!r} is no class of errors"
            raise InvalidInput(message, field=field, value=each, allowed="classes such as TimeoutError, in a tuple")
    return errors


def _backoff(given: object, fields: dict[str, Any], retry: Mapping[str, Any]) -> Backoff | None:
    if callable(given):
        return given
    if fields.get("retry_backoff") is not None or "backoff" in retry:
        message = "backoff: the job says retry_backoff too"
        raise InvalidInput(message, field="backoff", value=given, allowed="one of backoff, retry_backoff")
    if fields.get("retry_delay") is None and "delay" not in retry:
        fields["retry_delay"] = 1
    if given == "linear":
        delay = seconds_of("retry_delay", fields.get("retry_delay") or retry["delay"])
        return lambda attempt, _: delay * attempt
    growth = _WORDS.get(given) if isinstance(given, str) else given
    if isinstance(growth, bool) or not isinstance(growth, int | float) or not growth >= 1:
        raise InvalidInput(f"backoff: {given!r} is not allowed", field="backoff", value=given, allowed=_ALLOWED)
    fields["retry_backoff"] = growth
    return None
