"""Jobs of cronstable and yacron, from YAML."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tokimori.clock import Moment
from tokimori.errors import InvalidFile
from tokimori.formats.format import Format, FormatSource, Given, ImportRequest, Text
from tokimori.formats.importing import STDIN, at_once, name_of, of_files, text_of

if TYPE_CHECKING:
    from tokimori.translators.entries import Entry

_ENDS = (".yml", ".yaml")
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

    zone, told = given.zone("UTC")[0], list[str]()

    def local() -> str:
        found, told[:] = given.zone()
        return found

    def read(file: str) -> "Iterator[Entry]":
        folder = Path.cwd() if file == STDIN else Path(file).parent
        said = Cronstable(name_of(file), zone, local, lambda name: text_of(str(folder / name)))
        return read_cronstable(text_of(file), said)

    found = of_files([each for source in given.sources for each in _files(source)], read)
    return FormatSource(at_once(lambda: found), (*told, *_NOTES))


def _files(source: str) -> Sequence[str]:
    """Return the files of a folder; those that begin with `_` are there to be included."""
    if not Path(source).is_dir():
        return [source]
    found = sorted(str(each) for each in Path(source).iterdir() if each.suffix in _ENDS and each.name[0] != "_")
    if not found:
        raise InvalidFile(f"{source}: it has no YAML files", field="source", value=source, allowed="*.yaml or *.yml")
    return found


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
