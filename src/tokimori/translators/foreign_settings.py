"""Settings of other systems made into ours: recognition, the result of each key, and TOML. Pure."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from types import MappingProxyType

from tokimori.config.settings import Setting
from tokimori.config.value import MASK, URLS, read_value
from tokimori.errors import InvalidFile, InvalidInput
from tokimori.logs.controls import visible
from tokimori.service.definitions.toml import write_fields, write_key
from tokimori.translators.became import Became, cited
from tokimori.translators.keiji import KEYS as KEIJI_KEYS
from tokimori.translators.keiji import read_keiji_settings
from tokimori.translators.koyomi import read_koyomi_settings
from tokimori.translators.perfectsched import read_perfectsched_settings
from tokimori.translators.store_urls import store_url

LARGEST = 256 * 1024
"""Bytes of a file of settings."""


def _read_url(text: str, base: PurePath) -> Iterator[Became]:
    """Yield one DSN or URL."""
    store = store_url(text, base, {})
    yield Became(key="store", given=MASK, settings={"store": store.url}, why=store.why)


SYSTEMS: Mapping[str, Callable[[str, PurePath], Iterator[Became]]] = MappingProxyType(
    {
        "koyomi": read_koyomi_settings,
        "keiji": read_keiji_settings,
        "perfectsched": read_perfectsched_settings,
        "url": _read_url,
    }
)
_HEAD = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?\Z")
_SIGNS = (
    ("url", re.compile(r"\A\s*[A-Za-z][A-Za-z0-9+.-]*:\S+\s*\Z")),
    ("keiji", re.compile(rf"^[ \t]*(?:export\s+)?(?:{'|'.join(KEIJI_KEYS)})\s*=", re.MULTILINE)),
    (
        "koyomi",
        re.compile(
            r"^[ \t]*(?:\[\s*(?:log|worker|schedule|job|datasource|debug)\b|(?:time_zone|debug_mode)\s*=)", re.M
        ),
    ),
    ("perfectsched", re.compile(r"^[ \t]*(?:url|type|table)\s*:", re.MULTILINE)),
)


_ONLY_KOYOMI = re.compile(
    r"^[ \t]*(?:\[\s*(?:datasource\.(?:connector|module)|debug|job)\b|(?:debug_mode|lock_ttl_seconds|file_path)\s*=)",
    re.M,
)


def foreign_system(text: str) -> str | None:
    """Return the foreign system of these settings, if they can't be ours."""
    system = next((system for system, sign in _SIGNS if system != "url" and sign.search(text)), None)
    return None if system == "koyomi" and _ONLY_KOYOMI.search(text) is None else system


def recognised(text: str) -> str:
    """Return the system whose settings these are. Raises `InvalidFile`."""
    for system, sign in _SIGNS:
        if sign.search(text):
            return system
    message = "these are the settings of no system that is known here"
    raise InvalidFile(message, field="file", allowed=f"--format {', '.join(SYSTEMS)}")


def translated(
    text: str,
    system: str,
    *,
    base: Path,
    table: Mapping[str, Setting],
    home: Path,
    zone: Callable[[], str] | None = None,
    old: str | None = None,
) -> tuple[Became, ...]:
    """Return the result of each key; paths begin at `base`, and `zone` is that of the machine (None: unknown).

    `old` is the file of settings that gets them: its zone stays, if theirs has none.

    Raises `InvalidInput`, whose field is a foreign key.
    """
    found = tuple(SYSTEMS[system](text, base))
    if not found:
        raise InvalidFile("it says nothing", field="file", allowed="at least one setting")
    if zone is not None and system == "koyomi" and all(each.key != "time_zone" for each in found):
        why = "Koyomi's zone is that of the machine, where none is said"
        settings = {"time_zone": zone()}
        if old is not None and _names_zone(old):
            settings, why = {}, f"the file that gets the settings names a zone, which stays; {why}"
        found = (Became(key="time_zone", given="not said", settings=settings, why=why), *found)
    return tuple(_checked(each, table, base, home) for each in found)


def _names_zone(text: str) -> bool:
    try:
        return "time_zone" in tomllib.loads(text)
    except ValueError:
        return False  # it can't be merged, which is said then


def _checked(said: Became, table: Mapping[str, Setting], base: Path, home: Path) -> Became:
    """Return the result with values as our settings take them."""
    settings = {}
    try:
        "".join(map(str, (said.key, said.env, *said.settings.values()))).encode()
    except UnicodeEncodeError:
        raise InvalidFile("it is not text", field="file", allowed="UTF-8") from None
    for name, value in said.settings.items():
        try:
            read = read_value(name, value, table, base=base, home=home, is_text=isinstance(value, str))
        except InvalidInput as fault:
            message = f"{said.key}: {said.given} is not allowed"
            raise InvalidInput(message, field=said.key, value=said.given, allowed=fault.allowed) from None
        settings[name] = str(read) if isinstance(read, Path) else read
    return Became(key=said.key, given=said.given, settings=settings, why=said.why, env=said.env)


def settings_of(found: Sequence[Became]) -> dict[str | None, dict[str, object]]:
    """Return all settings by their section `[env.NAME]`; None: always in force."""
    sections: dict[str | None, dict[str, object]] = {None: {}}
    for each in found:
        sections.setdefault(each.env, {}).update(each.settings)
    return sections


def write_settings(found: Sequence[Became], head: str) -> str:
    """Return the file of settings, with comments on keys without an equal, and on differences."""
    comments = [f"{name_of(each)} = {each.given}: {_comment_of(each)}" for each in found]
    parts = ["".join(f"# {_line(line)}\n" for line in (head, *comments))]
    for env, settings in settings_of(found).items():
        prefix = "" if env is None else f"env.{write_key(env)}"
        parts += _tables(settings, prefix, always=env is not None)
    return "\n".join(parts)


def merged(text: str, found: Sequence[Became]) -> str:
    """Return the file of settings with the imported ones in their places; all else stays.

    Raises `InvalidFile` if that can't be done line by line.
    """
    try:
        wanted = tomllib.loads(text)
        lines = text.splitlines()
        for env, settings in settings_of(found).items():
            for name, value in settings.items():
                path = [*(() if env is None else ("env", env)), *name.split(".")]
                _set(wanted, path, value)
                _write_line(lines, path, value)
        written = "\n".join([*lines, ""])
        if tomllib.loads(written) == wanted:
            return written
    except (tomllib.TOMLDecodeError, AttributeError):
        pass
    raise InvalidFile("it can't be merged line by line", field="to", allowed="a new file, or tables such as [log]")


def _set(table: dict[str, object], path: Sequence[str], value: object) -> None:
    *tables, key = path
    for name in tables:
        table = table.setdefault(name, {})  # type: ignore[assignment]
    table[key] = value


def _write_line(lines: list[str], path: Sequence[str], value: object) -> None:
    """Replace a setting in the file, or add it at the end of its table."""
    line = write_fields({path[-1]: value}).removesuffix("\n")
    table, heads = ".".join(map(write_key, path[:-1])), [place for place, each in enumerate(lines) if _HEAD.match(each)]
    begin = next((place + 1 for place in heads if (head := _HEAD.match(lines[place])) and head[1] == table), None)
    if not table:
        begin = 0
    if begin is None:
        lines += ["", f"[{table}]", line]
        return
    end = next((place for place in heads if place >= begin), len(lines))
    same = re.compile(rf"\s*{re.escape(write_key(path[-1]))}\s*=")
    for place in range(begin, end):
        if same.match(lines[place]):
            lines[place] = line
            return
    while end > begin and not lines[end - 1].strip():
        end -= 1
    lines.insert(end, line)


def became_text(each: Became) -> str:
    """Return our settings in one line, without passwords."""
    return ", ".join(f"{name} = {MASK if name in URLS else cited(value)}" for name, value in each.settings.items())


def _tables(settings: Mapping[str, object], prefix: str, *, always: bool) -> Iterator[str]:
    """Yield a table for each section; that of the top comes first, without a head if there is no prefix."""
    sections: dict[str, dict[str, object]] = {"": {}} if always else {}
    for name, value in sorted(settings.items(), key=lambda item: ("." in item[0], item[0])):
        section, _, key = name.rpartition(".")
        sections.setdefault(section, {})[key] = value
    for section, fields in sections.items():
        head = ".".join(part for part in (prefix, section) if part)
        yield (f"[{head}]\n" if head else "") + write_fields(fields)


def name_of(each: Became) -> str:
    """Return the key with its section."""
    return each.key if each.env is None else f"{each.env}.{each.key}"


def _comment_of(each: Became) -> str:
    """Return the comment above the value of a setting."""
    return "; ".join(part for part in (f"became {', '.join(each.settings)}" if each.settings else "", each.why) if part)


def _line(text: str) -> str:
    """Return the comment on one line, without control characters."""
    return visible(text).replace("\n", " ")
