"""Jobs of cronstable and yacron, from YAML."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tokimori.clock import Moment
from tokimori.formats.format import Format, FormatSource, Given, ImportRequest, Text
from tokimori.formats.importing import STDIN, at_once, files_in, name_of, of_files, text_of

if TYPE_CHECKING:
    from tokimori.translators.entries import Entry

_YAML = re.compile(r"[^_].*\.ya?ml")
"""Files that begin with `_` are there to be included."""
_NOTES = (
    "cronstable or yacron still runs these jobs: stop it, or they run twice",
    "there a run that writes to stderr fails (failsWhen.producesStderr), here its exit code alone decides",
    "commands get a small environment here (PATH, HOME, USER …), and not that of the program: `--env` adds to it",
)


class CronstableRequest(ImportRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """YAML of cronstable or yacron, without `include` and `env_file`: a node opens no file that a caller names."""

    text: Text


def _read(said: CronstableRequest, _now: Moment) -> "Iterator[Entry]":
    from tokimori.translators.cronstable import Cronstable, read_cronstable

    return read_cronstable(said.text, Cronstable("text", said.time_zone, lambda: said.time_zone))


def _source(given: Given) -> FormatSource:
    from tokimori.translators.cronstable import Cronstable, read_cronstable

    zone, zone_notes = given.zone("UTC")[0], list[str]()

    def local() -> str:
        found, zone_notes[:] = given.zone()
        return found

    def read(file: str) -> "Iterator[Entry]":
        folder = Path.cwd() if file == STDIN else Path(file).parent
        source = Cronstable(name_of(file), zone, local, lambda name: text_of(str(folder / name)))
        return read_cronstable(text_of(file), source)

    found = of_files(files_in(given.sources, _YAML, "YAML files (*.yaml, *.yml)"), read)
    return FormatSource(at_once(lambda: found), (*zone_notes, *_NOTES))


FORMAT = Format(
    what="jobs of cronstable and yacron",
    help="""Sources are YAML files, or folders of them; - reads standard input. Defaults are merged, and files that are
    included are read. A job without a timezone is in UTC, and with utc: false in this machine's zone.""",
    request=CronstableRequest,
    example={"text": 'jobs:\n- name: report\n  command: make report\n  schedule: "0 3 * * *"\n'},
    read=_read,
    source=_source,
    metavar="DIR|FILE...",
    takes_many=True,
)
