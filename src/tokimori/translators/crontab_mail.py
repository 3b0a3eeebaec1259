"""MAILTO of crontabs: a notifier for each address, which tells of the trouble of its jobs. Pure."""

import hashlib
import re
from collections.abc import Sequence

from msgspec.structs import replace

from tokimori.model.email import Email, Tls
from tokimori.model.job import Definition
from tokimori.model.notifier import RETRY, TROUBLES, Notifier, notifier_id

_NO_WORD = re.compile(r"[^A-Za-z0-9._-]")


def with_mail(jobs: Sequence[tuple[str, Definition]], smtp: str, sender: str, tls: Tls) -> list[tuple[str, Definition]]:
    """The jobs, of which those with an address in `mailto` tell a notifier, and these notifiers.

    What is no address (`MAILTO=root`) is left as it is.
    """
    found: dict[str, Definition] = {}
    told: list[tuple[str, Definition]] = []
    for job_id, definition in jobs:
        to = addresses_in(definition.mailto or "")
        if not to:
            told.append((job_id, definition))
            continue
        name = _name(to)
        target = Email(to=to, smtp=smtp, sender=sender, tls=tls)
        found[notifier_id(name)] = Definition(target=target, notifier=Notifier(), retry=RETRY)
        told.append((job_id, replace(definition, notify=dict.fromkeys(TROUBLES, (name,)))))
    return [*found.items(), *told]


def addresses_in(mailto: str) -> tuple[str, ...]:
    """The addresses of a MAILTO; none where one of them is a user of the machine."""
    parts = tuple(part.strip() for part in mailto.split(",") if part.strip())
    return parts if all("@" in part for part in parts) else ()


def _name(to: Sequence[str]) -> str:
    """A word for these addresses, another one for others."""
    text = ",".join(to)
    word = f"mail-{_NO_WORD.sub('-', text)}"[:100]
    is_plain = len(to) == 1 and not _NO_WORD.search(text.replace("@", "", 1)) and "-" not in text and len(text) < 90
    return word if is_plain else f"{word}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
