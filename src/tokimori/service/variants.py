"""The same service, which does less: with another judge, time zone or bounds. Nothing is opened for it."""

from copy import copy
from typing import TypeVar

from tokimori.schedules.zones import check_zone
from tokimori.service.bounds import Bounds
from tokimori.service.jobs import JobService, Judge

_Kind = TypeVar("_Kind", bound=JobService)


def judged_by(service: _Kind, judge: Judge) -> _Kind:
    """The same service, which makes and changes only the jobs that the judge lets pass."""
    other = copy(service)
    other._judge = judge
    other._act_as(service._author)
    return other


def in_zone(service: _Kind, time_zone: str) -> _Kind:
    """The same service, where jobs that name no time zone are in this one. Raises `InvalidInput`."""
    other = copy(service)
    other.time_zone = check_zone(time_zone)
    other._act_as(service._author)
    return other


def within(service: _Kind, bounds: Bounds) -> _Kind:
    """The same service with these bounds of an answer: for a door, not for programs. Nothing is opened."""
    other = copy(service)
    other._bounds = bounds
    return other
