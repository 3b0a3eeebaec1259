"""The source of a task is a folder or a file; what is no source is refused with its file and its line."""

import os
from pathlib import Path

import pytest

from tokimori.errors import InvalidFile, InvalidInput, NotFound
from tokimori.model.build import MAIN
from tokimori.workspace.source import LARGEST_SCRIPT, names_in, read_source

FUNCTION = "def function():\n    print('hello')\n"


def write(folder: Path, **files: str) -> Path:
    """A task `t` with these files; `__` in a name stands for a dot, and `___` for a slash."""
    for name, text in files.items():
        file = folder / "t" / name.replace("___", "/").replace("__", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def test_a_folder_is_a_task(tmp_path: Path) -> None:
    """What is in it is in the build, but for what is hidden, for bytecode and for what explains it to people."""
    write(tmp_path, function__py=FUNCTION, schedule__py="", data___a__txt="x", README__md="x")
    write(tmp_path, __env="A=1", __git___config="x", __pycache_____x__pyc="x", sub_____pycache_____y__pyc="x")
    source = read_source(tmp_path, "t")
    assert sorted(source.files) == [MAIN, "data/a.txt", "function.py", "schedule.py"]
    assert source.env == {"A": "1"}
    assert source.schedule_file == tmp_path / "t" / "schedule.py"


def test_a_file_is_a_task(tmp_path: Path) -> None:
    """With its `.env` beside it; it runs as a script, unless it defines `function`."""
    (tmp_path / "t.py").write_text("print('hello')\n")
    (tmp_path / "t.env").write_text("A=1\n")
    source = read_source(tmp_path, "t")
    assert sorted(source.files) == [MAIN, "function.py"]
    assert b"run_module" in source.files[MAIN]
    assert (source.env, source.schedule_file) == ({"A": "1"}, None)
    (tmp_path / "t.py").write_text(FUNCTION)
    assert b"run_module" not in read_source(tmp_path, "t").files[MAIN]


def test_a_shell_script_is_a_task(tmp_path: Path) -> None:
    """By itself, or as function.sh of a folder."""
    (tmp_path / "t.sh").write_text("echo hello\n")
    assert sorted(read_source(tmp_path, "t").files) == [MAIN, "function.sh"]
    write(tmp_path / "other", function__sh="echo hello\n")
    assert sorted(read_source(tmp_path / "other", "t").files) == [MAIN, "function.sh"]
    (tmp_path / "t.sh").write_text("x" * (LARGEST_SCRIPT + 1))
    with pytest.raises(InvalidFile, match="bytes"):
        read_source(tmp_path, "t")


@pytest.mark.parametrize(
    "text",
    [
        "def function(): ...",
        "async def function(): ...",
        "function = print",
        "from other import function",
        "from other import main as function",
        "class function: ...",
        "function: type = print",
    ],
)
def test_a_function_may_be_defined_in_any_way(tmp_path: Path, text: str) -> None:
    """The module is not run to find it."""
    assert MAIN in read_source(write(tmp_path, function__py=text), "t").files


def test_dependencies_come_from_both_places(tmp_path: Path) -> None:
    """From requirements.txt and from the function's comment, each once and in order."""
    inline = "# /// script\n# dependencies = ['b', 'a']\n# ///\n"
    write(tmp_path, function__py=inline + FUNCTION, requirements__txt="c==1  # why\n\n# no\nb\n")
    assert read_source(tmp_path, "t").dependencies == ("a", "b", "c==1")


def test_the_description_is_the_first_that_somebody_gave(tmp_path: Path) -> None:
    """The comment's, else that of `.env` as in Keiji, else the first line of the function's module."""
    write(tmp_path, function__py=f'"""Says hello.\n\nMore."""\n{FUNCTION}')
    assert read_source(tmp_path, "t").description == "Says hello."
    write(tmp_path, __env="TASK_DESCRIPTION=pings google")
    assert read_source(tmp_path, "t").description == "pings google"


def test_a_file_may_begin_with_a_mark(tmp_path: Path) -> None:
    """As editors write it; what stands in its first line counts."""
    text = '# /// script\n# dependencies = ["a"]\n# ///\n"""Says hello."""\n' + FUNCTION
    (tmp_path / "t.py").write_text(text, encoding="utf-8-sig")
    source = read_source(tmp_path, "t")
    assert (source.dependencies, source.description) == (("a",), "Says hello.")


def test_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    """The error says how it is made."""
    with pytest.raises(NotFound, match="tokimori task create t"):
        read_source(tmp_path, "t")


@pytest.mark.parametrize("name", ["../t", "a b", "é", ""])
def test_a_name_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    """It is refused before any file is looked at."""
    with pytest.raises(InvalidInput, match="is not the name of a task"):
        read_source(tmp_path, name)


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ({"schedule__py": ""}, r"t: it has no function.py: the function is missing"),
        ({"function__py": "def functoin(): ..."}, r"function.py: it defines no `function`"),
        ({"function__py": "function: type"}, r"function.py: it defines no `function`"),
        ({"function__py": "if True:\n  def function(): ..."}, r"function.py: it defines no `function`"),
        ({"function__py": "def function(:\n"}, r"function.py:1: "),
        ({"function__py": "\0"}, r"function.py"),
        ({"function__py": FUNCTION, "____main____py": ""}, r"__main__.py: a build has a file of this name"),
        ({"function__py": FUNCTION, "__env": "no variable"}, r"\.env:1: this is no variable"),
    ],
)
def test_what_is_no_source_is_refused(tmp_path: Path, files: dict[str, str], match: str) -> None:
    """The error names the file, and the line where there is one."""
    if "____main____py" in files:
        (write(tmp_path, function__py=FUNCTION) / "t" / MAIN).write_text("")
    else:
        write(tmp_path, **files)
    with pytest.raises(InvalidFile, match=match):
        read_source(tmp_path, "t")


@pytest.mark.parametrize("kind", ["link", "folder link", "pipe", "no text"])
def test_what_is_no_plain_file_is_refused(tmp_path: Path, kind: str) -> None:
    """A build holds what is in the folder, and nothing to which a link leads."""
    write(tmp_path, function__py=FUNCTION)
    place = tmp_path / "t" / "other"
    match kind:
        case "link":
            place.symlink_to("/etc/passwd")
        case "folder link":
            place.symlink_to("/etc")
        case "pipe":
            os.mkfifo(place)
        case _:
            (tmp_path / "t" / "function.py").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidFile):
        read_source(tmp_path, "t")


def test_a_folder_and_a_file_of_one_name_are_refused(tmp_path: Path) -> None:
    """Nobody knows which is meant."""
    write(tmp_path, function__py=FUNCTION)
    (tmp_path / "t.py").write_text(FUNCTION)
    with pytest.raises(InvalidInput, match="both there"):
        read_source(tmp_path, "t")


def test_all_tasks_of_a_workspace_are_named(tmp_path: Path) -> None:
    """Folders and files, in order; what is hidden is none."""
    for folder in ("b", ".hidden", "__pycache__"):
        (tmp_path / folder).mkdir()
    for file in ("a.py", "c.sh", "c.env", "notes.txt"):
        (tmp_path / file).touch()
    assert names_in(tmp_path) == ["a", "b", "c"]
