"""The duties of a node that need nothing but its store."""

from collections.abc import Callable

from tokimori.clock import Moment
from tokimori.engine.duty import Duty, SureTime
from tokimori.engine.expire import Expirer
from tokimori.engine.fire import Schedules
from tokimori.engine.prune import AuditPruner, Pruner
from tokimori.engine.recompute import Reckoner
from tokimori.engine.rewind import Rewinder
from tokimori.engine.trim import Trimmer
from tokimori.model.ids import RandomBytes
from tokimori.node.membership import Membership
from tokimori.ports.store import Store


def duties_of(
    store: Store,
    at: float,
    membership: Membership,
    schedules: Schedules,
    *,
    forget: Callable[[Moment], None],
    random: RandomBytes,
    chance: Callable[[], float],
) -> tuple[Duty, ...]:
    """Return the duties of one life of a node that begins at this second. Some wait for a sure time."""
    identity, steady = membership.identity, membership.steady
    deleting: tuple[Duty, ...] = (
        Pruner(store, at, chance, forget),
        AuditPruner(store, at, chance, identity.audit_kept),
        Trimmer(store, at, chance, random, identity.messages),
    )
    return (
        Reckoner(store, schedules),
        Rewinder(store, at, schedules, steady, random),
        *(SureTime(duty, store, steady) for duty in (Expirer(store, at, lambda: membership.ahead), *deleting)),
    )
