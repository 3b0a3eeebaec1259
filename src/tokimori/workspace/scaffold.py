"""Files that `tokimori init` and `tokimori task create` write. Existing ones stay."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tokimori.errors import AlreadyExists, InvalidInput, Refused
from tokimori.model.build import check_task_name
from tokimori.model.task import LONGEST_DESCRIPTION
from tokimori.model.words import check_text

CONFIG: Final = "tokimori.toml"
TASKS: Final = "tasks"
EXAMPLE: Final = "hello"
_FUNCTION: Final = '''"""What the task {name} does."""


def function() -> None:
    """Put what is to be done here. A task that raises an error has failed."""
    print("Hello from {name}.")
'''
_SCHEDULE: Final = '''"""When the task {name} runs."""

from tokimori import every


def schedule() -> str:
    """Say the schedule here; others are every().friday.at("10:00PM"), or a text such as "0 3 * * *"."""
    return every(10).seconds
'''
_README: Final = """# {name}

{description}

- `function.py`: what it does. `schedule.py`: when. `.env`: its variables, which no build holds.
- `requirements.txt`, if there is one: what it depends on.
- `tokimori task build {name}` freezes it; until the next build nodes run exactly that.
"""
_ENV: Final = """TASK_NAME={name}
TASK_DESCRIPTION={description}
"""


def create(tasks_dir: Path, name: str, description: str, *, force: bool = False) -> Path:
    """Write the source of a new task; its folder. `force`: in place of one that is there.

    Raises `AlreadyExists`, and `Refused` if it can't be written; then nothing is left of it.
    """
    checked, place = check_task_name(name), tasks_dir / check_task_name(name)
    _check_description(description)
    for other in (place, tasks_dir / f"{checked}.py", tasks_dir / f"{checked}.sh"):
        if os.path.lexists(other) and not (force and other == place):
            raise AlreadyExists(
                f"name: the task is there already, in {other}",
                field="name",
                value=checked,
                allowed="a new name, or --force",
            )
    terms = {"name": checked, "description": description}
    files = {
        "function.py": _FUNCTION.format(**terms),
        "schedule.py": _SCHEDULE.format(**terms),
        "README.md": _README.format(**terms),
        ".env": _ENV.format(**terms),
    }
    _put(place, files)
    return place


def initialise(folder: Path, state_dir: Path | None) -> list[Path]:
    """Write a workspace into a folder; what was written. What is there stays as it is. Raises `Refused`."""
    made: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (config := folder / CONFIG).exists():
            config.write_text(_config(state_dir))
            made.append(config)
        if not (tasks := folder / TASKS).exists():
            tasks.mkdir()
            made.append(create(tasks, EXAMPLE, "says hello"))
    except OSError as fault:
        raise _unwritten(folder, fault) from None
    return made


def _config(state_dir: Path | None) -> str:
    """Return the settings of a workspace."""
    kept = "# state_dir = " if state_dir is None else "state_dir = "
    return (
        "# Settings of this workspace. `tokimori config show` prints all, and `tokimori config check` checks them.\n"
        f'tasks_dir = "{TASKS}"\n'
        '# time_zone = "Europe/Paris"\n'
        f'{kept}"{state_dir or ""}"\n'
    )


def _check_description(description: str) -> None:
    check_text("description", description)
    if description.splitlines() not in ([], [description]) or len(description) > LONGEST_DESCRIPTION:
        raise InvalidInput(
            f"description: {description!r} is not one line",
            field="description",
            value=description,
            allowed=f"one line of at most {LONGEST_DESCRIPTION} characters",
        )


def _put(place: Path, files: Mapping[str, str]) -> None:
    """Put a folder with these files in its place, as a whole."""
    unnamed = place.with_name(f".{place.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        unnamed.mkdir()
        for name, text in files.items():
            (unnamed / name).write_text(text)
        (unnamed / ".env").chmod(0o600)
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        unnamed.rename(place)
    except OSError as fault:
        raise _unwritten(place, fault) from None
    finally:
        shutil.rmtree(unnamed, ignore_errors=True)


def _unwritten(place: Path, fault: OSError) -> Refused:
    message = f"{place}: can't be written: {fault.strerror}"
    return Refused(message, field="name", value=str(place), allowed="a folder that can be written")
