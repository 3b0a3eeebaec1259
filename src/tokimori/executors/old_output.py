"""Old output files: of attempts, `<run>/<attempt>.log`, and of worker processes."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from tokimori.clock import SECOND, Moment
from tokimori.model.retention import first_id_at

MOST = 1000
"""How many runs' folders are removed in one go."""


def remove_old_output(runs_dir: Path, before: Moment) -> int:
    """Remove folders of runs made before the moment, of which no file was written since; how many have gone.

    The name of a folder is the run's id, and that tells when it was made. Where `MOST` have gone there may be more.
    """
    bound, removed = first_id_at(before), 0
    if not runs_dir.is_dir():
        return removed
    with os.scandir(runs_dir) as folders:  # no list of them all: there may be millions
        for entry in folders:
            folder = Path(entry)
            if folder.name < bound and _last_written(folder) < before:
                shutil.rmtree(folder, ignore_errors=True)
                removed += not folder.exists()
            if removed == MOST:
                break
    return removed


def remove_old_logs(folder: Path, before: float) -> None:
    """Remove the files of worker processes that were written before that time (seconds since 1970), if possible."""
    for file in folder.glob("*.log"):
        with suppress(OSError):
            if file.stat().st_mtime < before:
                file.unlink()


def _last_written(folder: Path) -> float:
    """Return a moment. A file that is gone meanwhile was old."""
    times = [0.0]
    for path in (folder, *folder.glob("*.log")):
        try:
            times.append(path.stat().st_mtime * SECOND)
        except OSError:
            continue
    return max(times)
