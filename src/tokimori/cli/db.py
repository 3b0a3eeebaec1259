"""`tokimori db …`"""

from typing import TYPE_CHECKING

from tokimori.cli.command import Group, options
from tokimori.cli.output import print_fields, print_json
from tokimori.cli.session import in_bare_service

if TYPE_CHECKING:
    from tokimori.ports.store import SchemaStatus

db = Group("db", help="The store's tables.")


@db.command()
def status() -> None:
    """Show which migrations have been applied, and which are pending."""
    _print(in_bare_service(lambda service: service.schema()))


@db.command()
def migrate() -> None:
    """Apply what is pending."""
    _print(in_bare_service(lambda service: service.migrate()))


def _print(found: "SchemaStatus") -> None:
    if options().as_json:
        print_json(found)
        return
    print_fields(
        [
            ("schema", "none yet" if found.version is None else found.version),
            ("newest known", found.newest),
            ("usable by nodes since", found.oldest or "none yet"),
            ("pending", ", ".join(found.pending) or "nothing"),
        ]
    )
