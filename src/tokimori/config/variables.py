"""Settings from the environment."""

from collections.abc import Collection, Iterator, Mapping

from tokimori.spelling import nearest

PREFIX = "TOKIMORI_"
CONFIG_PATH = f"{PREFIX}CONFIG_PATH"
ENV = f"{PREFIX}ENV"
"""Which section `[env.NAME]` of the file is in force."""

_NOT_SETTINGS = frozenset(
    PREFIX + name
    for name in (
        "CONFIG_PATH",
        "ENV",
        "DEBUG",
        "SECRETS_KEYS",
        # what a job gets to know of its own run (DESIGN §7), and hands on to a tokimori that it starts
        "JOB_ID",
        "RUN_ID",
        "ATTEMPT",
        "TOKEN",
        "NOMINAL_TIME",
        "DUE_TIME",
        "PARENT_RUN_ID",
        "PERMITS",
        "PAYLOAD",
        "PAYLOAD_FILE",
        "OUTCOME_FILE",
        # and a command under `tokimori lock`
        "LOCK",
        "LOCK_TOKEN",
    )
)


def from_variables(environ: Mapping[str, str], names: Collection[str]) -> tuple[dict[str, object], tuple[str, ...]]:
    """Return the settings from variables, and a warning for each unknown `TOKIMORI_` variable; an empty one sets
    nothing.
    """
    settings = {PREFIX + name.upper().replace(".", "_"): name for name in names}
    found: dict[str, object] = {settings[key]: text for key, text in environ.items() if key in settings and text}
    ours = (key for key in sorted(environ) if key.startswith(PREFIX))
    unknown = (key for key in ours if key not in settings and key not in _NOT_SETTINGS)
    said = {*settings, *_NOT_SETTINGS}
    return found, (*(_ignored(key, said) for key in unknown), *_near_misses(environ, said))


def _ignored(key: str, known: Collection[str]) -> str:
    return f"{key}: there is no such setting; the variable is ignored{_hint(key.removeprefix(PREFIX), known)}"


def _hint(rest: str, known: Collection[str]) -> str:
    """Return the hint; what is common to all of them says nothing."""
    meant = nearest(rest, [name.removeprefix(PREFIX) for name in known])
    return "" if meant is None else f"; did you mean {PREFIX}{meant}?"


def _near_misses(environ: Mapping[str, str], known: Collection[str]) -> Iterator[str]:
    """Variables whose first word is nearly ours, before a name that is."""
    for key in sorted(environ):
        first, _, rest = key.partition("_")
        if first != PREFIX[:-1] and PREFIX + rest in known and nearest(first, [PREFIX[:-1]]) is not None:
            yield f"{key}: it is none of our variables, and ignored; did you mean {PREFIX}{rest}?"
