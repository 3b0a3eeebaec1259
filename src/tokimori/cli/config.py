"""`tokimori config …`"""

from tokimori.cli.command import Group, options
from tokimori.cli.output import print_json, print_lines, print_table
from tokimori.cli.session import load

config = Group("config", help="The settings of nodes and of this program.")


@config.command()
def show() -> None:
    """Show every setting, and where its value came from."""

    from tokimori.config.settings import shown_settings

    shown = shown_settings(load())
    if options().as_json:
        print_json(shown)
    else:
        print_table(("SETTING", "VALUE", "FROM"), [(each.name, each.value, each.origin) for each in shown])


@config.command()
def check() -> None:
    """Check the settings: every fault is listed; exit code 2 if there is one."""
    warnings = load().warnings
    if options().as_json:
        print_json({"ok": True, "warnings": warnings})
    else:
        print_lines("the settings are fine")
