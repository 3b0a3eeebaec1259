"""The source of a task: a folder of its own, or one file, in the folder of tasks of a workspace."""

import ast
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from tokimori.errors import InvalidFile, InvalidInput, NotFound
from tokimori.model.build import LARGEST, MAIN, MANIFEST, check_task_name
from tokimori.model.task import env_files_of, read_env
from tokimori.service.definitions.arguments import JobArguments

_BLOCK = re.compile(r"^# /// script[ \t]*\n((?:^#(?: .*)?\n)+?)^# ///[ \t]*$", re.MULTILINE)
_ALLOWED: Final = "dependencies, requires-python, and below [tool.tokimori] schedule, description and terms of a job"


class TokimoriTable(Struct, frozen=True, kw_only=True):
    """`[tool.tokimori]`. `terms` are all others that it names."""

    schedule: str | None = None
    description: str | None = None
    terms: dict[str, Any] = {}


class _Tools(Struct, frozen=True, kw_only=True):
    tokimori: dict[str, Any] = {}


class Metadata(Struct, frozen=True, kw_only=True, rename="kebab"):
    """Content of the comment."""

    dependencies: tuple[str, ...] = ()
    requires_python: str | None = None
    tool: _Tools = field(default_factory=_Tools)

    @property
    def ours(self) -> TokimoriTable:
        """Return our part."""
        terms = dict(self.tool.tokimori)
        own: dict[str, Any] = {name: terms.pop(name) for name in ("schedule", "description") if name in terms}
        return msgspec.convert({**own, "terms": terms}, TokimoriTable)


def read_metadata(text: str, where: str) -> Metadata:
    """Return a script's metadata; empty without such a comment. Raises `InvalidFile`."""
    blocks = _BLOCK.findall(text.replace("\r\n", "\n"))
    if len(blocks) > 1:
        raise InvalidFile(f"{where}: it has two blocks `# /// script`", field="script", allowed="one")
    if not blocks:
        return Metadata()
    toml = "".join(line[2:] if line.startswith("# ") else line[1:] for line in blocks[0].splitlines(keepends=True))
    try:
        found = msgspec.convert(tomllib.loads(toml), Metadata)
        given = found.ours  # read here, so that its faults name the script
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as fault:
        message = f"{where}: the block `# /// script` can't be read: {fault}"
        raise InvalidFile(message, field="script", allowed=_ALLOWED) from None
    for name in given.terms:
        if name not in JobArguments.__annotations__:
            message = f"{where}: the block `# /// script` can't be read: a job has no {name!r}"
            raise InvalidFile(message, field=name, value=given.terms[name], allowed=_ALLOWED)
    return found


FUNCTION: Final = "function"
SCHEDULE: Final = "schedule.py"
REQUIREMENTS: Final = "requirements.txt"
MOST_FILES: Final = 1_000
LARGEST_SCRIPT: Final = 100_000
"""Bytes of a shell script: it is an argument of its shell."""
DESCRIPTION: Final = "TASK_DESCRIPTION"
_OURS: Final = (MAIN, MANIFEST)
_LEFT_OUT: Final = ("__pycache__", "readme", "readme.md", "readme.txt")
_RUNS_FUNCTION: Final = b'''"""Runs the function of a task."""

from function import function

done = function()
if hasattr(done, "__await__"):
    import asyncio

    async def whole():
        await done

    asyncio.run(whole())
'''
_RUNS_SHELL: Final = '''"""Runs the shell script of a task."""

import os
import sys
import zipfile

with zipfile.ZipFile(sys.argv[0]) as build:
    script = build.read("function.sh").decode()
words = script.splitlines()[0][2:].split() if script.startswith("#!") else ["/bin/sh"]
os.execvp(words[0], [*words, "-c", script, {name!r}, *sys.argv[1:]])
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSource:
    """A task as it is written. `files` are what a build holds, by their paths within it.

    `folder` is where it is evaluated; `schedule_file` says its schedule, else `metadata` of the file `entry` does.
    `env` is never built.
    """

    name: str
    folder: Path
    files: Mapping[str, bytes]
    metadata: Metadata
    dependencies: tuple[str, ...]
    env: Mapping[str, str]
    entry: Path
    schedule_file: Path | None
    description: str | None


def read_source(tasks_dir: Path, name: str) -> TaskSource:
    """Return the source of a task. Raises `NotFound`, and `InvalidInput` for what can't be built."""
    checked = check_task_name(name)
    places = {kind: tasks_dir / f"{checked}{kind}" for kind in ("", ".py", ".sh")}
    there = [kind for kind, place in places.items() if (place.is_dir() if kind == "" else place.is_file())]
    if not there:
        raise NotFound(
            f"name: there is no source of {checked!r} in {tasks_dir}: `tokimori task create {checked}` makes one",
            field="name",
            value=checked,
            allowed="a folder, or a file .py or .sh, of that name",
        )
    if len(there) > 1:
        both = " and ".join(places[kind].name for kind in there)
        raise InvalidInput(f"name: {both} are both there", field="name", value=checked, allowed="one of them")
    place = places[there[0]]
    files = dict(_files_in(place)) if there[0] == "" else {FUNCTION + there[0]: _content(place)}
    return _source(checked, tasks_dir, place, files)


def _source(name: str, tasks_dir: Path, place: Path, files: dict[str, bytes]) -> TaskSource:
    env, is_folder = read_env_of(tasks_dir, name), place.is_dir()
    main, entry = _entry(name, place, files)
    file = place / entry if is_folder else place
    text = _text(files[entry], file)
    metadata = read_metadata(text, str(file))
    required = _requirements(files, place) + metadata.dependencies
    schedule_file = place / SCHEDULE if SCHEDULE in files and is_folder else None
    return TaskSource(
        name=name,
        folder=place if is_folder else tasks_dir,
        files={**files, MAIN: main},
        metadata=metadata,
        dependencies=tuple(sorted(dict.fromkeys(required))),
        env=env,
        entry=file,
        schedule_file=schedule_file,
        description=metadata.ours.description or env.get(DESCRIPTION) or _first_line(text, entry),
    )


def _entry(name: str, place: Path, files: Mapping[str, bytes]) -> tuple[bytes, str]:
    """Return what runs the build, and which file says what the task does. Raises `InvalidInput`."""
    if f"{FUNCTION}.sh" in files and f"{FUNCTION}.py" not in files:
        entry = f"{FUNCTION}.sh"
        if len(files[entry]) > LARGEST_SCRIPT:
            message, allowed = f"{place}: it has {len(files[entry])} bytes", f"at most {LARGEST_SCRIPT} bytes"
            raise InvalidFile(message, field=FUNCTION, allowed=allowed)
        return _RUNS_SHELL.format(name=name).encode(), entry
    entry = f"{FUNCTION}.py"
    if entry not in files:
        raise InvalidFile(
            f"{place}: it has no {entry}: the function is missing",
            field=FUNCTION,
            value=name,
            allowed=f"a file {entry}",
        )
    where = place / entry if place.is_dir() else place
    if _defines_function(files[entry], where):
        return _RUNS_FUNCTION, entry
    if place.is_dir():
        message = f"{where}: it defines no `function`"
        raise InvalidFile(message, field=FUNCTION, value=name, allowed="def function(): …")
    return b"import runpy\n\nrunpy.run_module('function', run_name='__main__', alter_sys=True)\n", entry


def _defines_function(code: bytes, where: Path) -> bool:
    """Return whether the module defines that name; it is not run. Raises `InvalidFile`."""
    try:
        tree = ast.parse(code, str(where))
    except (SyntaxError, ValueError) as fault:
        line = f":{fault.lineno}" if isinstance(fault, SyntaxError) and fault.lineno else ""
        why = fault.msg if isinstance(fault, SyntaxError) else fault
        raise InvalidFile(f"{where}{line}: {why}", field=FUNCTION, allowed="Python that can be compiled") from None
    return any(name == FUNCTION for statement in tree.body for name in _names(statement))


def _names(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name for alias in names)
        case _:
            pass


def _files_in(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield all files below a folder that a build holds. Raises `InvalidFile`."""
    count, size = 0, 0
    for above, folders, names in os.walk(folder, onerror=_unreadable):
        folders[:] = sorted(each for each in folders if not _is_left_out(each))
        for name in sorted(each for each in (*names, *folders) if not _is_left_out(each)):
            path = Path(above, name)
            if name in folders and not path.is_symlink():
                continue
            content, inside = _content(path), path.relative_to(folder).as_posix()
            count, size = count + 1, size + len(content)
            if count > MOST_FILES or size > LARGEST:
                message = f"{folder}: there is too much in it"
                raise InvalidFile(message, field="name", allowed=f"at most {MOST_FILES} files of {LARGEST} bytes")
            if inside in _OURS:
                raise InvalidFile(f"{path}: a build has a file of this name", field="name", allowed="another name")
            yield inside, content


def _is_left_out(name: str) -> bool:
    return name.startswith(".") or name.lower() in _LEFT_OUT or name.endswith(".pyc")


def _content(path: Path) -> bytes:
    """Return a file's content. A link, a pipe or a device is refused: what it leads to is not the task's."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise InvalidFile(f"{path}: it is no plain file", field="name", allowed="files and folders, no links")
        str(path).encode()
        with path.open("rb") as opened:
            return opened.read(LARGEST + 1)
    except OSError as fault:
        raise InvalidFile(f"{path}: can't be read: {fault.strerror}", field="name", allowed="a readable file") from None
    except UnicodeEncodeError:
        raise InvalidFile(f"{path!r}: its name is no UTF-8", field="name", allowed="a name in UTF-8") from None


def _unreadable(fault: OSError) -> None:
    raise InvalidFile(f"{fault.filename}: can't be read: {fault.strerror}", field="name", allowed="a readable folder")


def _text(content: bytes, where: Path) -> str:
    try:
        return content.decode("utf-8-sig")  # some editors begin a file with a mark, which Python leaves out
    except UnicodeDecodeError:
        raise InvalidFile(f"{where}: is not UTF-8 text", field=FUNCTION, allowed="UTF-8") from None


def read_env_of(tasks_dir: Path, name: str) -> Mapping[str, str]:
    """Return the variables of a task. Raises `InvalidFile`."""
    for place in env_files_of(name):
        file = tasks_dir / place
        if file.is_file():
            return read_env(_content(file), str(file))
    return {}


def _requirements(files: Mapping[str, bytes], place: Path) -> tuple[str, ...]:
    """Return the lines of requirements.txt."""
    lines = _text(files.get(REQUIREMENTS, b""), place / REQUIREMENTS).splitlines()
    stripped = (line.partition(" #")[0].strip() for line in lines)
    return tuple(line for line in stripped if line and not line.startswith("#"))


def _first_line(text: str, entry: str) -> str | None:
    """Return the first line of a module's docstring."""
    if not entry.endswith(".py"):
        return None
    doc = ast.get_docstring(ast.parse(text))
    return doc.strip().partition("\n")[0] or None if doc else None


def names_in(tasks_dir: Path) -> list[str]:
    """Return the names of all tasks whose source is in the folder, in order."""
    found = set()
    for place in tasks_dir.iterdir():
        is_file = place.suffix in (".py", ".sh") and place.is_file()
        if not place.name.startswith((".", "__")) and (place.is_dir() or is_file):
            found.add(place.stem if is_file else place.name)
    return sorted(found)
