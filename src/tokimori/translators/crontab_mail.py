"""MAILTO of crontabs: a notifier for each address, which notifies of trouble of its jobs. Pure."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from msgspec.structs import replace as with_fields

from tokimori.model.email import Email, Tls
from tokimori.model.job import Definition
from tokimori.model.notifier import RETRY, TROUBLES, Notifier, notifier_id
from tokimori.translators.entries import Entry, Moved

_NO_WORD = re.compile(r"[^A-Za-z0-9._-]")


def with_mail(found: Iterable[Entry], smtp: str, sender: str, tls: Tls) -> list[Entry]:
    """Let jobs with an address in `mailto` name a notifier, which is added before them.

    A `mailto` that is no address (`MAILTO=root`) stays.
    """
    notifiers: dict[str, Entry] = {}
    entries: list[Entry] = []
    for entry in found:
        to = addresses_in(entry.definition.mailto or "") if isinstance(entry, Moved) else ()
        if not isinstance(entry, Moved) or not to:
            entries.append(entry)
            continue
        name = _name(to)
        target = Email(to=to, smtp=smtp, sender=sender, tls=tls)
        mail = Definition(target=target, notifier=Notifier(), retry=RETRY)
        notifiers.setdefault(name, Moved(place=f"MAILTO={','.join(to)}", job_id=notifier_id(name), definition=mail))
        entries.append(
            replace(entry, definition=with_fields(entry.definition, notify=dict.fromkeys(TROUBLES, (name,))))
        )
    return [*notifiers.values(), *entries]


def addresses_in(mailto: str) -> tuple[str, ...]:
    """Return the addresses of a MAILTO; none if one of them is a user of the machine."""
    parts = tuple(part.strip() for part in mailto.split(",") if part.strip())
    return parts if all("@" in part for part in parts) else ()


def _name(to: Sequence[str]) -> str:
    """Return a word that is unique to these addresses."""
    text = ",".join(to)
    word = f"mail-{_NO_WORD.sub('-', text)}"[:100]
    is_plain = len(to) == 1 and not _NO_WORD.search(text.replace("@", "", 1)) and "-" not in text and len(text) < 90
    return word if is_plain else f"{word}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
