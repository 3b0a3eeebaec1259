"""Tokens: who may ask nodes, and as what. The text of one is shown once, when it is made."""

from typing import Final

from tokimori.model.access_token import AccessToken, Role
from tokimori.service.service import Service
from tokimori.web.addresses import path
from tokimori.web.nouns import Cell, Column, Noun, Row, Table, alone, cut, filters, has, said, screens_of, state, when
from tokimori.web.screen import Act, Field, Given, Receipt
from tokimori.web.screens.secrets import PREFIXES, listed
from tokimori.web.visit import Visit

_NAMES: Final = {"role": tuple(map(str, Role))}
_COLUMNS: Final = (
    *(Column("State", "pc"), Column("Name", "pa"), Column("Role", "pd"), Column("Scope", "wide pf")),
    *(Column("Made", "n w2"), Column("By", "w2"), Column("Expires", "n pb")),
)
_COMMAND: Final = "tokimori token create NAME --role read"


async def show(visit: Visit) -> Noun:
    """Return the list of tokens, those that are over too."""
    role = visit.one("role")
    found, page = cut(
        visit,
        await visit.service.tokens.list(),
        lambda each: each.name,
        lambda each: has(visit, each.name, each.by) and role in (None, each.role),
    )
    empty = "There are no tokens: whoever has the node’s secret may do everything. This makes one that only looks:"
    return Noun(
        [Table("Tokens", _COLUMNS, [_row(visit, each) for each in found], empty, _COMMAND)],
        makes=("tokens.create",),
        filter=filters(visit, "Filter tokens", _NAMES),
        page=page,
        note="The text of a token is shown once, when it is made; the store keeps a hash of it.",
    )


def _row(visit: Visit, each: AccessToken) -> Row:
    is_over = each.expires is not None and each.expires <= visit.now
    only = [*(f"jobs {prefix}*" for prefix in each.scope.jobs), *(f"queue {name}" for name in each.scope.queues)]
    cells = (
        state("finished", "over") if is_over else state("enabled", "good"),
        said(each.name, to=path("tokens", each.name)),
        said(each.role),
        said(", ".join(only) or "all jobs and queues"),
        when(visit, each.created),
        said(each.by),
        when(visit, each.expires) if each.expires is not None else Cell("never", "q"),
    )
    return Row(f"token {each.name}", cells, ("tokens.revoke",), each.name)


async def page(visit: Visit) -> Noun:
    """Return the page of a token."""
    name = visit.parts["name"]
    rows = (_row(visit, each) for each in await visit.service.tokens.list() if each.name == name)
    return alone("token", name, _COLUMNS, next(rows, None))


async def _create(service: Service, name: str, given: Given) -> Receipt:
    made = await service.tokens.create(
        name,
        given.get("role", ""),
        jobs=listed(given.get("jobs", "")),
        queues=listed(given.get("queues", "")),
        expires=given.get("expires"),
    )
    return Receipt(f"Token {name} made", once=made.text)


ACTS: Final = (
    Act(
        "tokens.create",
        "Make",
        "made",
        _create,
        fields=(
            Field(
                "role",
                "Role",
                "ping reports, read looks, operate changes, admin may do all",
                "choice",
                ("read", "operate", "admin", "ping"),
            ),
            Field("jobs", "Only jobs", PREFIXES),
            Field("queues", "Only queues", "their names; empty: all"),
            Field("expires", "Good for", "such as 12h or 30d; empty: for ever"),
        ),
        makes="New token",
    ),
    Act(
        "tokens.revoke",
        "Revoke",
        "revoked",
        sure="Within two seconds no node lets in who sends it. There is no undo.",
        back="/tokens",
    ),
)
SCREENS: Final = screens_of("tokens", show, page, names=_NAMES)
