"""Settings of other systems as ours: whose they are, what became of each key, and the TOML that says it. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from types import MappingProxyType

from tokimori.config.settings import Setting
from tokimori.config.value import MASK, URLS, read_value
from tokimori.errors import InvalidFile, InvalidInput
from tokimori.logs.controls import visible
from tokimori.translators.became import Became, shown
from tokimori.translators.keiji_settings import KEYS as KEIJI_KEYS
from tokimori.translators.keiji_settings import read_keiji
from tokimori.translators.koyomi_settings import read_koyomi
from tokimori.translators.perfectsched_settings import read_perfectsched
from tokimori.translators.store_urls import store_url
from tokimori.translators.toml_export import write_fields, write_key

LARGEST = 256 * 1024
"""Bytes of a file of settings."""


def _read_url(text: str, base: PurePath) -> Iterator[Became]:
    """One DSN or URL."""
    store = store_url(text, base, {})
    yield Became(key="store", given=MASK, settings={"store": store.url}, why=store.why)


SYSTEMS: Mapping[str, Callable[[str, PurePath], Iterator[Became]]] = MappingProxyType(
    {"koyomi": read_koyomi, "keiji": read_keiji, "perfectsched": read_perfectsched, "url": _read_url}
)
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


def recognised(text: str) -> str:
    """The system whose settings these are. Raises `InvalidFile`."""
    for system, sign in _SIGNS:
        if sign.search(text):
            return system
    message = "these are the settings of no system that is known here"
    raise InvalidFile(message, field="file", allowed=f"--format {', '.join(SYSTEMS)}")


def translated(text: str, system: str, *, base: Path, table: Mapping[str, Setting], home: Path) -> tuple[Became, ...]:
    """What became of each key; paths begin at `base`. Raises `InvalidInput`, whose field is a key of theirs."""
    found = tuple(SYSTEMS[system](text, base))
    if not found:
        raise InvalidFile("it says nothing", field="file", allowed="at least one setting")
    return tuple(_checked(each, table, base, home) for each in found)


def _checked(said: Became, table: Mapping[str, Setting], base: Path, home: Path) -> Became:
    """With the values as our settings take them."""
    settings = {}
    try:
        "".join(map(str, (said.key, said.env, *said.settings.values()))).encode()
    except UnicodeEncodeError:
        raise InvalidFile("it holds what is no text", field="file", allowed="UTF-8") from None
    for name, value in said.settings.items():
        try:
            read = read_value(name, value, table, base=base, home=home, is_text=isinstance(value, str))
        except InvalidInput as fault:
            message = f"{said.key}: {said.given} is not allowed"
            raise InvalidInput(message, field=said.key, value=said.given, allowed=fault.allowed) from None
        settings[name] = str(read) if isinstance(read, Path) else read
    return Became(key=said.key, given=said.given, settings=settings, why=said.why, env=said.env)


def settings_of(found: Sequence[Became]) -> dict[str | None, dict[str, object]]:
    """All settings, by the section `[env.NAME]` in which they stand; None: always in force."""
    sections: dict[str | None, dict[str, object]] = {None: {}}
    for each in found:
        sections.setdefault(each.env, {}).update(each.settings)
    return sections


def write_settings(found: Sequence[Became], head: str) -> str:
    """The file of settings, with comments on what has no equal, and on what is otherwise."""
    told = [f"{name_of(each)} = {each.given}: {_told(each)}" for each in found]
    parts = ["".join(f"# {_line(line)}\n" for line in (head, *told))]
    for env, settings in settings_of(found).items():
        prefix = "" if env is None else f"env.{write_key(env)}"
        parts += _tables(settings, prefix, always=env is not None)
    return "\n".join(parts)


def became_text(each: Became) -> str:
    """Our settings in one line; no password is shown."""
    return ", ".join(f"{name} = {MASK if name in URLS else shown(value)}" for name, value in each.settings.items())


def _tables(settings: Mapping[str, object], prefix: str, *, always: bool) -> Iterator[str]:
    """A table for each section; those of the top stand first, without a head where there is no prefix."""
    sections: dict[str, dict[str, object]] = {"": {}} if always else {}
    for name, value in sorted(settings.items(), key=lambda item: ("." in item[0], item[0])):
        section, _, key = name.rpartition(".")
        sections.setdefault(section, {})[key] = value
    for section, fields in sections.items():
        head = ".".join(part for part in (prefix, section) if part)
        yield (f"[{head}]\n" if head else "") + write_fields(fields)


def name_of(each: Became) -> str:
    """The key, with the section that it stands in."""
    return each.key if each.env is None else f"{each.env}.{each.key}"


def _told(each: Became) -> str:
    """What a comment says of it; the value of the setting stands below."""
    return "; ".join(part for part in (f"became {', '.join(each.settings)}" if each.settings else "", each.why) if part)


def _line(text: str) -> str:
    """A comment may hold no control characters."""
    return visible(text).replace("\n", " ")
