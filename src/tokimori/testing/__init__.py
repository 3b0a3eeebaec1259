"""For tests of jobs and of clusters: rehearsals of an app, a node ticked by hand, a checker of what nodes have done."""

from tokimori.testing.rehearsal import Rehearsal, fixture

__all__ = ["Rehearsal", "fixture"]
