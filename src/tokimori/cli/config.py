"""`tokimori config …`"""

from tokimori.cli.command import Group, options
from tokimori.cli.output import print_json, print_lines
from tokimori.cli.session import load
from tokimori.cli.table import print_table

config = Group(
    "config",
    help="The settings of nodes and of this program.",
    nouns={
        "import": ("tokimori.cli.config_import:import_settings", "Translate settings of Koyomi, Keiji, PerfectSched.")
    },
)


@config.command()
def show() -> None:
    """Show every setting, and where its value came from."""

    from tokimori.config.settings import shown_settings

    shown = shown_settings(load())
    if options().as_json:
        print_json(shown)
    else:
        print_table(("SETTING", "VALUE", "FROM"), [(each.name, _as_typed(each.value), each.origin) for each in shown])


@config.command()
def check() -> None:
    """Check the settings: every fault is listed; exit code 2 if there is one."""

    from tokimori.clock import SystemClock
    from tokimori.stores.open import open_store

    loaded = load(check_store=lambda url: open_store(url, SystemClock()))  # only reads the URL, connects nothing
    if options().as_json:
        print_json({"ok": True, "warnings": loaded.warnings})
    else:
        print_lines("the settings are fine")


def _as_typed(value: object) -> object:
    """As a file of settings has it: `true`, not `True`."""

    from msgspec import json

    return value if value is None or isinstance(value, str) else json.encode(value).decode()
