"""Who but this process's user and root could change a file, or put another one in its place; files of ours alone."""

import os
import stat
from pathlib import Path

PRIVATE = 0o600
PRIVATE_FOLDER = 0o700


def others_reach(path: Path, *, most: int | None = None) -> str | None:
    """Why what stands at this path may be somebody else's doing; None: it is ours or root's, and so is the way to it.

    In a folder with the sticky bit (`/tmp`) nobody moves what is not his. `most`: look at so many folders only, from
    the path upwards. Raises `OSError` where there is no such path.
    """
    real = path.resolve(strict=True)
    for place in (real, *real.parents)[:most]:
        if fault := _reached(place, place.stat()):
            return fault
    return None


def _reached(place: Path, found: os.stat_result) -> str | None:
    if found.st_uid not in {0, os.geteuid()}:
        return f"{place} belongs to {owner_of(found.st_uid)}"
    if found.st_mode & stat.S_ISVTX and stat.S_ISDIR(found.st_mode):
        return None
    if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and found.st_gid != 0):
        return f"{place} may be written by others (mode {stat.S_IMODE(found.st_mode):04o})"
    return None


def owner_of(uid: int) -> str:
    """The name of a user, else his number."""
    import pwd  # noqa: PLC0415  programs that only ask for help need it not

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
