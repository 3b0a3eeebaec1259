"""PerfectSched's configuration, YAML with a section for each environment, as our settings. Pure."""

from collections.abc import Iterator
from pathlib import PurePath

from tokimori.config.value import MASK
from tokimori.errors import InvalidFile, InvalidInput
from tokimori.translators.became import Became, shown, unknown
from tokimori.translators.store_urls import store_url
from tokimori.translators.yaml_tree import Faults, Value, read_documents

_SAME = {
    "timezone": ("time_zone", ""),
    "poll_interval": (
        "schedule.update_interval_seconds",
        "a node sleeps until something is due; this is how often it asks for edits at least, and each beat, every 2 s,"
        " asks too",
    ),
    "log": ("log.file", ""),
}
_NO_EQUAL = {
    "type": "nothing has to be said: the URL of the store says of which kind it is",
    "table": "all is kept in tables named tokimori_…; `?namespace=NAME` in the store's URL keeps two systems in one"
    " database apart",
    "alive_time": "a node holds one lease for all that it runs: it is renewed every 2 s, and a node that is dead is"
    " known after 7 s",
    "retry_wait": "each job says how its failures are tried again: `tokimori job update ID --attempts N --retry-delay"
    " LENGTH`",
    "max_acquire": "PerfectSched does not use it; how many run at a time is node.concurrency",
}
_STORE = ("url", "sslca")
KEYS = dict.fromkeys((*_SAME, *_NO_EQUAL, *_STORE))
_TEMPLATE = "<%"


def read_perfectsched(text: str, base: PurePath) -> Iterator[Became]:
    """Yield the result of each key of each section, which becomes `[env.NAME]`. Raises `InvalidInput`."""
    faults = Faults("line")
    for document in read_documents(text, faults):
        sections = document.fields()
        flat = any(not isinstance(section.content, dict) for section in sections.values())
        for env, section in ((None, document),) if flat else sections.items():
            yield from _section(section, env, base)
    if faults.lines:
        raise InvalidFile("\n".join(faults.texts()), field="file")


def _section(section: Value, env: str | None, base: PurePath) -> Iterator[Became]:
    said = {key: value.content for key, value in section.fields().items() if value.content is not None}
    for key, value in said.items():
        _check_plain(key, value)
        if key in _SAME:
            setting, why = _SAME[key]
            yield Became(key=key, given=shown(value), settings={setting: value}, why=why, env=env)
        elif key in _NO_EQUAL:
            yield Became(key=key, given=shown(value), why=_NO_EQUAL[key], env=env)
        elif key not in KEYS:
            yield unknown(key, KEYS, "PerfectSched", env)
    yield from _store(said, env, base)


def _check_plain(key: str, value: object) -> None:
    """Refuse a template of Ruby, which says nothing until Ruby has run it."""
    if isinstance(value, str) and _TEMPLATE in value:
        raise InvalidInput(f"{key}: it is a template of Ruby", field=key, allowed="the value that it stands for")


def _store(said: dict[str, object], env: str | None, base: PurePath) -> Iterator[Became]:
    url, authority = said.get("url"), said.get("sslca")
    if url is None:
        if authority is not None:
            yield Became(key="sslca", given=shown(authority), why="no url is said, to which it belongs", env=env)
        return
    if not isinstance(url, str) or not (authority is None or isinstance(authority, str)):
        key = "sslca" if isinstance(url, str) else "url"
        raise InvalidInput(f"{key}: this is no text", field=key, allowed="a text")
    store = store_url(url, base, {"sslca": authority}, field="url")
    for key in (key for key in _STORE if key in said):
        yield Became(key=key, given=MASK, settings={"store": store.url}, why=store.why if key == "url" else "", env=env)
