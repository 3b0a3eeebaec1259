"""`tokimori init`"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.output import print_json, print_lines

if TYPE_CHECKING:
    from tokimori.config.settings import Loaded


@click.command(cls=Command)
@click.argument("folder", metavar="[DIR]", required=False, default=".")
@click.option("--user", is_flag=True, help="Keep state below this user's XDG_STATE_HOME; it takes no name.")
@click.option("--system", is_flag=True, help="Keep state in /var/lib/tokimori.")
def init(folder: str, user: bool, system: bool) -> None:
    """Make a workspace in a folder: tokimori.toml, tasks/ with an example, and the state folder with its database.

    Existing files stay, so the command may be repeated.
    """
    from tokimori.cli.output import print_notice
    from tokimori.errors import InvalidInput
    from tokimori.workspace.scaffold import initialise

    if user and system:
        raise InvalidInput("user: --user and --system are both said", field="user", allowed="one of them")
    place = Path(folder).absolute()
    made = initialise(place, _state_dir(user=user, system=system))
    loaded = _settings(place)
    schema = _make_state(loaded)
    if options().as_json:
        print_json({"workspace": place, "made": [*made], "state_dir": loaded.settings.state_dir, "schema": schema})
        return
    print_lines(f"workspace {place}" + ("" if made else ": everything is there already"))
    print_lines(*(f"made {path}" for path in made), f"state in {loaded.settings.state_dir}")
    if loaded.settings.tasks_dir is None:
        print_notice(f'{place / "tokimori.toml"} says no tasks_dir: write `tasks_dir = "tasks"` into it')


def _state_dir(*, user: bool, system: bool) -> Path | None:
    """Return the folder for the settings; None for none."""
    from tokimori.config.value import state_dirs

    of_user, of_system = state_dirs(os.environ)
    if user:
        return of_user
    return of_system if system else None


def _settings(place: Path) -> "Loaded":
    """Return the settings of the new workspace, or those that the command line names."""
    from tokimori.config.settings import load_settings
    from tokimori.workspace.scaffold import CONFIG

    named = options()
    flags = {} if named.store is None else {"store": named.store}
    return load_settings(flags, os.environ, cwd=place, config=named.config or place / CONFIG)


def _make_state(loaded: "Loaded") -> int | None:
    """Make the state folder, its files and the tables of the store; return the version of the schema."""
    import asyncio

    from tokimori.client.opening import make_state_dir, stores_of
    from tokimori.clock import SystemClock

    for inner in ("", "logs", "builds"):
        make_state_dir(loaded.settings.state_dir / inner)

    async def migrate() -> int | None:
        store, _ = stores_of(loaded, SystemClock())
        await store.open()
        try:
            return (await store.migrate()).version
        finally:
            await store.close()

    return asyncio.run(migrate())
