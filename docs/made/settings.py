"""The settings, from their one table."""

from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import NODEFAULT, Meta

from docs.made.markdown import REFERENCE, code, table, text
from tokimori.config.file import PREFIX
from tokimori.config.secret_files import SUFFIX, variables_with_files
from tokimori.config.settings import Setting, settings_table

PAGE = REFERENCE / "settings.md"
WORDS = {str: "text", int: "number", float: "number", bool: "true or false", Path: "path", NoneType: "none"}
BY_THE_MACHINE = {
    "store": "SQLite in `state_dir`",
    "state_dir": "`~/.local/state/tokimori`; of root `/var/lib/tokimori`",
    "node.concurrency": "16 for each core",
    "app.processes": "one for each core",
}
OTHERS = {
    "TOKIMORI_CONFIG_PATH": "The configuration file, in place of those that are looked for.",
    "TOKIMORI_ENV": "The section `[env.NAME]` of the file that is in force.",
    "TOKIMORI_SECRETS_KEYS": "The keys that encrypt secrets, in place of `secrets.key_file`.",
    "TOKIMORI_CACERT": "The certificates that programs and commands trust when they ask a node with TLS.",
    "TOKIMORI_DEBUG": "With any value a bug shows its traceback.",
}
OF_A_RUN = {
    "TOKIMORI_JOB_ID": "The job.",
    "TOKIMORI_RUN_ID": "The run.",
    "TOKIMORI_ATTEMPT": "The number of the attempt, from 1 on.",
    "TOKIMORI_TOKEN": "A number that grows with each attempt: what you write to may refuse a smaller one.",
    "TOKIMORI_NOMINAL_TIME": "The time for which the run is.",
    "TOKIMORI_DUE_TIME": "The time at which it was due.",
    "TOKIMORI_PARENT_RUN_ID": "The run after which it runs, if there is one.",
    "TOKIMORI_PARENT_RESULT": "The result of that run; of a job that joins others an object of theirs, by job.",
    "TOKIMORI_PARENT_RESULT_FILE": "A file with that, if it is large.",
    "TOKIMORI_PERMITS": "The units of semaphores that it holds: `NAME:WEIGHT:TOKEN`.",
    "TOKIMORI_PAYLOAD": "Its payload as JSON, if that is short.",
    "TOKIMORI_PAYLOAD_FILE": "A file with its payload.",
    "TOKIMORI_OUTCOME_FILE": "A file in which it may say how it ended.",
    "TOKIMORI_LOCK": "Under `tokimori lock`: the name of the semaphore.",
    "TOKIMORI_LOCK_TOKEN": "Under `tokimori lock`: a number that grows with each holder.",
}


def page() -> str:
    """Return the page, with a table for each section."""
    return text(_lines())


def _lines() -> Iterator[str]:
    yield from (
        "# Settings",
        "",
        "Written by `make docs` from `src/tokimori/config`. `tokimori config show` prints each setting and where its",
        "value came from; `tokimori config check` lists every fault.",
        "",
        "The first of these that has a value counts:",
        "",
        "1. the option of the command, such as `--port 8001`;",
        "2. the variable, such as `TOKIMORI_HTTP_PORT`;",
        "3. the configuration file: the section `[env.NAME]` that `TOKIMORI_ENV` names, then the rest;",
        "4. the default.",
        "",
        "The file is TOML. It is the first of: `--config FILE`, `TOKIMORI_CONFIG_PATH`, `tokimori.toml` in the current",
        "folder, `~/.config/tokimori/tokimori.toml` and `/etc/tokimori/tokimori.toml`. `http.port` is `port` below",
        "`[http]`. In a variable a list is `a,b`, and a table is `name=value,name=value`. An unknown name is an error",
        "in the file, and a warning in a variable.",
    )
    settings = settings_table()
    for section in dict.fromkeys(each.name.rpartition(".")[0] for each in settings):
        yield from ("", f"## {code(f'[{section}]') if section else 'At the top of the file'}", "")
        rows = [_row(each) for each in settings if each.name.rpartition(".")[0] == section]
        yield from table(("setting", "type", "default", "variable", "meaning"), rows)
    yield from ("", "## Secrets in files", "")
    yield "A file may hold the value of a variable. `TOKIMORI_STORE_FILE` names the one for `TOKIMORI_STORE`."
    yield from ("Both at once are an error. These variables have such a name:", "")
    for name in sorted(variables_with_files([each.name for each in settings])):
        yield f"* {code(name + SUFFIX)}"
    yield from ("", "## Variables that are no settings", "")
    yield from table(("variable", "meaning"), [(code(name), meaning) for name, meaning in OTHERS.items()])
    yield from ("", "## Variables that a command gets", "")
    yield from table(("variable", "meaning"), [(code(name), meaning) for name, meaning in OF_A_RUN.items()])


def _row(setting: Setting) -> tuple[str, ...]:
    """Return the cells of a setting."""
    variable = PREFIX + setting.name.upper().replace(".", "_")
    kind = f"{_type(setting.kind)}{_bound(setting.kind)}"
    return code(setting.name), kind, _default(setting), code(variable), setting.meaning


def _type(kind: Any) -> str:
    """Return a type in words."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _type(arguments[0])
    if origin in (Union, UnionType):
        return " or ".join(map(_type, arguments))
    if origin is Literal:
        return " or ".join(code(each) for each in arguments)
    if origin is tuple:
        return f"list of {_type(arguments[0])}s"
    if origin is dict:
        return "table of texts"
    return WORDS[kind]


def _bound(kind: Any) -> str:
    """Return the bounds of a number."""
    if get_origin(kind) in (Union, UnionType):
        return next((bound for each in get_args(kind) if (bound := _bound(each))), "")
    metas = [each for each in getattr(kind, "__metadata__", ()) if isinstance(each, Meta)]
    least = next((each.ge for each in metas if each.ge is not None), None)
    most = next((each.le for each in metas if each.le is not None), None)
    if least is None:
        return _bound(get_args(kind)[0]) if metas else ""
    return f", {least:,} to {most:,}" if most is not None else f", at least {least:,}"


def _default(setting: Setting) -> str:
    """Return the default as it is written in a file."""
    value = setting.default
    if value is NODEFAULT:
        return BY_THE_MACHINE[setting.name]
    if value is None or value in ((), {}):
        return "none"
    return code(str(value).lower() if isinstance(value, bool) else value)
