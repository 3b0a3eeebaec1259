"""Causes of failures that people mute for a while: they are expected, and somebody sees to them."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tokimori.clock import DAY, SECOND, Moment
from tokimori.errors import Conflict, InvalidInput, NotFound, Refused
from tokimori.model.access_token import Role
from tokimori.model.cause import ID, KIND, LONGEST_CAUSE, MOST_MUTED, Mute, cause_id, decode_mute, encode_mute
from tokimori.model.sizes import check_reason
from tokimori.model.words import check_text
from tokimori.ports.store import Store
from tokimori.service.access import OPEN, WHOLE, Sight
from tokimori.service.bulk import RunBulk
from tokimori.service.documents import DocumentKind, Documents
from tokimori.service.operation import OUTCOME, M, operation
from tokimori.service.shared import Caller, Shared
from tokimori.service.store_calls import retried
from tokimori.service.validation import Span, seconds_of
from tokimori.service.views.outside import list_of, maybe
from tokimori.service.views.runs import Mute as MuteView

USUAL, LONGEST = "7d", 90 * DAY


MUTES = DocumentKind(KIND, encode_mute, decode_mute)


class RunMutes(RunBulk[M]):
    """Operations on causes that are muted."""

    _store: Store
    _shared: Shared
    _caller: Caller

    @operation(Role.READ, OPEN, gives=list_of(MuteView.made))
    async def mutes(self) -> Sequence[Mute]:
        """Return the causes of failures that are muted now, by id."""
        return list((await self._muted()).values())

    @mutes.within
    async def _mutes_within(self, sight: Sight) -> Sequence[Mute]:
        """Return their ids alone: a cause may be that of others. `failures` says more of the own ones."""
        return [replace(each, cause="", by=None, reason=None) for each in (await self._muted()).values()]

    @operation(Role.OPERATE, WHOLE, audit=OUTCOME, of="mute", gives=MuteView.made)
    async def mute(self, cause: str, /, lasts: Span = USUAL, reason: str | None = None) -> Mute:
        """Mute a cause of failures for everybody: until then it needs no attention, and notifiers do not report it.

        `cause` is a cause or its id, as `failures` has them. It `lasts` 90 days at most. Runs and retries go on as
        before, and a job that is parked is reported. A cause that is muted gets the new time and reason. Raises
        `InvalidInput`, `NotFound` for an id that no failure of 30 days has, and `Refused` if 100 are muted.
        """
        check_reason("reason", "" if reason is None else reason)
        length, now = round(seconds_of("lasts", lasts, above_zero=True) * SECOND), await self._shared.now()
        if length > LONGEST:
            raise InvalidInput("lasts: it is too long", field="lasts", value=lasts, allowed="at most 90 days")
        text = await self._text_of(_checked(cause), now)
        mute = Mute(
            id=cause_id(text), cause=text, since=now, until=Moment(now + length), by=self._caller.author, reason=reason
        )
        known = {each.id: each for each in await self._documents().list()}
        for old in (each.id for each in known.values() if each.until <= now and each.id != mute.id):
            await self._forget(old)
        if mute.id not in known and sum(each.until > now for each in known.values()) >= MOST_MUTED:
            message = f"cause: {MOST_MUTED} causes are muted already: `tokimori run unmute` ends one of them"
            raise Refused(message, field="cause", value=cause, allowed="one that `tokimori run mutes` shows")
        await self._documents().put(mute.id, mute)
        return mute

    @operation(Role.OPERATE, WHOLE, audit=OUTCOME, of="mute", gives=maybe(MuteView.made))
    async def unmute(self, cause: str, /) -> Mute | None:
        """Unmute a cause; return the mute that ended, or None. Raises `InvalidInput`."""
        found = (await self._muted()).get(_id_of(_checked(cause)))
        if found is not None:
            await self._forget(found.id)
        return found

    async def _muted(self) -> Mapping[str, Mute]:
        """Return what is muted now, by the ids of causes."""
        now, found = await self._shared.now(), await self._documents().list()
        return {each.id: each for each in found if each.until > now}

    async def _text_of(self, cause: str, now: Moment) -> str:
        """Return the text of a cause of which perhaps the id alone was given."""
        if ID.match(cause) is None:
            return cause
        known = (await self._muted()).get(cause)
        found = None if known is None else known.cause
        if found is None:
            found = await self._cause_of(cause, Moment(now - 30 * DAY))
        if found is not None:
            return found
        allowed = "one that `tokimori run failures --since 30d` shows"
        raise NotFound(f"cause: no failure of 30 days has it: {cause!r}", field="cause", value=cause, allowed=allowed)

    async def _cause_of(self, wanted: str, since: Moment) -> str | None:
        """Return the text of the cause of this id, of failures since then."""
        raise NotImplementedError

    def _documents(self) -> Documents[Mute]:
        return Documents(self._store, MUTES, self._shared.random)

    async def _forget(self, name: str) -> None:
        async def act() -> None:
            await self._documents().delete(await self._documents().find(name))

        await retried(act, Conflict)


def _checked(cause: str) -> str:
    check_text("cause", cause)
    if 1 <= len(cause) <= LONGEST_CAUSE:
        return cause
    allowed = f"1 to {LONGEST_CAUSE} characters, as `tokimori run failures` shows them, or an id"
    raise InvalidInput("cause: it is no cause of a failure", field="cause", value=cause[:100], allowed=allowed)


def _id_of(cause: str) -> str:
    return cause if ID.match(cause) else cause_id(cause)
