"""Questions before acts, and the acts: the outcome is a toast on the page from which the reader came."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from time import monotonic
from urllib.parse import parse_qs

from tokimori.errors import Bug, InvalidInput, NotFound, TokimoriError
from tokimori.model.attempt_notes import check_json
from tokimori.service.bulk import Bulk
from tokimori.service.service import Service
from tokimori.web.screen import Act, Receipt, Screen, Shown
from tokimori.web.toasts import MOST_TEXT, MOST_UNDONE, Toast
from tokimori.web.visit import Visit
from tokimori.web.words import short

MOST_CHOSEN = 500
"""Number of things to which one act is done."""
MATCH = "match"
"""The field with the filters of a list, as they stand in its address behind a question mark."""
OF_ALL = ("reason", "payload")
"""The fields of an act that hold for all that match."""
LONGEST = 8.0
"""Seconds after which no more of all that match are looked for: a browser waits for ten."""
NAMED = 3
"""Number of these that a receipt names."""
_COMMAND = re.compile(r"`(tokimori [^`]*)`")

Acts = Mapping[str, Act]


def asking(acts: Acts) -> Sequence[Screen]:
    """Return the screens that ask before an act, and that offer all acts on a thing."""

    async def ask(visit: Visit) -> Shown:
        act = act_named(acts, visit.parts["act"])
        if (match := visit.one(MATCH)) is not None and act.meant is not None:
            return await _ask_all(act, visit, match)
        named = visit.all("on")
        on = chosen(named) if named or not act.makes else ()
        known = await act.fill(visit.service, on[0]) if act.fill is not None and on else {}
        given = {field.name: visit.one(field.name) or known.get(field.name, "") for field in act.fields}
        values = {"act": act, "on": on, "called": await _called(act, visit, on), "back": visit.one("back")}
        return {**values, "given": given, "outcome": None}

    return [Screen("/do/{act}", "", "ask.html", ask)]


async def _called(act: Act, visit: Visit, on: Sequence[str]) -> str:
    """Return how people name the one run that it is about; empty for others."""
    if act.noun == "runs" and len(on) == 1:
        with suppress(TokimoriError):
            return f"run {short(on[0])} of {(await visit.service.runs.get(on[0])).run.job_id}"
    return ""


async def _ask_all(act: Act, visit: Visit, match: str) -> Shown:
    """Ask before something is done to all that a list's filters find: how many, and the first ones."""
    found: Bulk = await _bulk(act, visit, match, dry_run=True)
    if not found.count:
        raise NotFound(f"none of the {act.noun} matches, or concerns this", field=MATCH, value=match)
    count = f"{found.count:,}{'+' if found.more else ''}"
    asked = act._replace(fields=[field for field in act.fields if field.name in OF_ALL])
    given = {field.name: "" for field in asked.fields}
    back = visit.one("back")
    return {
        "act": asked,
        "on": found.ids,
        "count": count,
        "match": match,
        "back": back,
        "given": given,
        "outcome": None,
    }


async def _bulk(act: Act, visit: Visit, match: str, **said: object) -> Bulk:
    """Return the bulk order of the service for the filters of a list, whose times are in the reader's zone."""
    if act.meant is None:
        raise Bug(f"{act.name} has no bulk order")
    meant = await act.meant(visit._replace(query=parse_qs(match.removeprefix("?"))))
    service = visit.service.in_zone(visit.zone_of(visit.service.time_zone))
    found: Bulk = await getattr(service, act.noun).bulk(act.name.partition(".")[2], **meant, **said)
    return found


async def done_all(act: Act, visit: Visit, match: str, given: Mapping[str, str]) -> Toast:
    """Do it to all that the filters of a list find, for some seconds; what came of it."""
    chosen = {name: given[name] for name in OF_ALL if given.get(name)}
    if "payload" in chosen:
        check_json(chosen["payload"])
    begun, names, kept, place = monotonic(), list[str](), dict[str, str](), dict[str, str]()
    while True:
        went = await _bulk(act, visit, match, **chosen, **place)
        names += went.ids
        kept |= went.kept
        place = {} if went.next is None else {"after" if act.noun == "jobs" else "before": went.next}
        if not place or monotonic() - begun > LONGEST:
            break
    why = f" {len(kept)} not: {next(iter(kept.values()))}" if kept else ""
    rest = " There are more: do it again for the others." if place else ""
    undo = act.undo if 0 < len(names) <= MOST_UNDONE else None
    text = f"{', '.join(names[:NAMED])}{' …' if len(names) > NAMED else ''}{why}{rest}".strip()
    noun = act.noun.removesuffix("s") if len(names) == 1 else act.noun
    return Toast(
        head=f"{len(names):,} {noun} {act.done}", text=text[:MOST_TEXT], undo=undo, on=tuple(names) if undo else ()
    )


def act_named(acts: Acts, name: str) -> Act:
    """Return the act. Raises `NotFound`."""
    if name in acts:
        return acts[name]
    raise NotFound(f"there is no act {name!r}", field="act", value=name, allowed=", ".join(acts))


def chosen(on: Sequence[str]) -> Sequence[str]:
    """Return the chosen things, each once. Raises `InvalidInput` for none, and for too many."""
    things = list(dict.fromkeys(on))
    if 1 <= len(things) <= MOST_CHOSEN:
        return things
    message = "on: nothing is chosen" if not things else f"on: {len(things)} things are chosen"
    raise InvalidInput(message, field="on", allowed=f"1 to {MOST_CHOSEN} of them")


async def done(act: Act, service: Service, on: Sequence[str], given: Mapping[str, str]) -> Toast:
    """Do the act to each of these things. Returns the receipt. Only a refusal of the first one stops it."""
    receipts: list[tuple[str, Receipt | None]] = []
    faults: list[TokimoriError] = []
    for thing in on:
        try:
            receipts.append((thing, await _do(act, service, thing, given)))
        except Bug:
            raise
        except TokimoriError as fault:
            faults.append(fault)
            if not receipts:
                break
    if not receipts:
        return refused(act, faults[0])
    return _receipt(act, receipts, faults, given)


async def _do(act: Act, service: Service, thing: str, given: Mapping[str, str]) -> Receipt | None:
    if act.do is not None:
        return await act.do(service, thing, given)
    await attrgetter(act.name)(service)(thing)
    return None


def refused(act: Act, fault: TokimoriError) -> Toast:
    """Return the toast of a refusal, with the command that mends it."""
    allowed = fault.allowed or ""
    commands = _COMMAND.findall(fault.message) + _COMMAND.findall(allowed)
    more = "" if commands or not allowed or allowed in fault.message else f" Allowed: {allowed}."
    text = f"{fault.message.removesuffix('.')}.{more}"[:MOST_TEXT]
    return Toast(head=f"Not {act.done}.", text=text, bad=True, command=commands[0][:300] if commands else None)


def _receipt(
    act: Act, receipts: Sequence[tuple[str, Receipt | None]], faults: Sequence[TokimoriError], given: Mapping[str, str]
) -> Toast:
    names = [thing for thing, _ in receipts]
    first = receipts[0][1]
    if len(names) == 1 and first is not None:
        head, text, to, once = first.text, "", first.to, first.once
    else:
        word = act.noun.removesuffix("s") if len(names) == 1 else act.noun
        once = None
        head, to = f"{len(names)} {word} {act.done}" if len(names) > 1 else f"{names[0]} {act.done}", None
        text = ", ".join(names[:NAMED]) + (" …" if len(names) > NAMED else "") if len(names) > 1 else ""
    reason = f" “{given['reason']}”" if given.get("reason") else ""
    failed = f" {len(faults)} not: {faults[0].message}" if faults else ""
    undo = act.undo if len(names) <= MOST_UNDONE else None
    receipt_text = f"{text}{reason}{failed}".strip()[:MOST_TEXT]
    return Toast(head=head[:MOST_TEXT], text=receipt_text, to=to, undo=undo, on=tuple(names) if undo else (), once=once)
