"""The rules of the house that no linter knows. Each is a function of a source text, so that it is itself tested."""

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

from docs.made import run_states

ROOT = Path(__file__).parents[2]
LONGEST_FILE, LONGEST_FUNCTION = 400, 60
MOST_OF_STORES = 18_966
"""Lines of all stores, SQL and Lua too. Only to be lowered: rates, waits, families, expiries and tallies raised it."""
MOST_ARGUMENTS = 30
"""Of a call, those by name counted twice: CPython 3.11 keeps so many on its stack."""
VAGUE = frozenset({"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc"})

Check = Callable[[str], Iterator[str]]


def long_files(text: str) -> Iterator[str]:
    """A file that is too long to be read at one sitting."""
    length = len(text.splitlines())
    if length > LONGEST_FILE:
        yield f"{length} lines, at most {LONGEST_FILE}"


def long_functions(text: str) -> Iterator[str]:
    """A function that does more than one thing."""
    for function in functions(text):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        if length > LONGEST_FUNCTION:
            yield f"line {function.lineno}: {function.name} has {length} lines, at most {LONGEST_FUNCTION}"


def gathered_calls(text: str) -> Iterator[str]:
    """A call whose arguments Python gathers in a dictionary first, because it has too many (decision 31)."""
    for node in nodes(text):
        if isinstance(node, ast.Call) and len(node.args) + 2 * len(node.keywords) > MOST_ARGUMENTS:
            yield f"line {node.lineno}: {ast.unparse(node.func)} has {len(node.args)} and {len(node.keywords)} by name"


def imports_of_the_root(text: str) -> Iterator[str]:
    """An import of the package's front door from inside the house."""
    if not re.search(r"\btokimori\b(?!\.)", text):
        return  # a text without the word itself need not be parsed
    for node in nodes(text):
        match node:
            case ast.Import(names=names) if any(name.name == "tokimori" for name in names):
                yield f"line {node.lineno}: imports tokimori itself"
            case ast.ImportFrom(module="tokimori", level=0):
                yield f"line {node.lineno}: imports from tokimori itself"
            case _:
                pass


def untold_tests(text: str) -> Iterator[str]:
    """A test whose first line does not say, in one sentence, what must hold."""
    for function in functions(text):
        if not function.name.startswith("test_"):
            continue
        said = (ast.get_docstring(function) or "").strip()
        sentence = " ".join(said.split("\n\n")[0].split())
        if not sentence.endswith(".") or re.search(r"[a-z0-9)`]\. [A-Z]", sentence):
            yield f"line {function.lineno}: {function.name} needs a docstring that begins with one sentence"


def riddles(text: str) -> Iterator[str]:
    """A docstring of a module, class or function that begins neither with its noun nor with its verb."""
    begins = re.compile(r"(What|Whether|Who|That|Those|Where|Of|How|When|It)\b")
    class_begins = re.compile(begins.pattern + r"|(As|Bind|From|Give|Keep|Make|Renew|Return|Send|Spawn|Take|Tell)\b")
    for node in nodes(text):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            pattern = class_begins if isinstance(node, ast.ClassDef) else begins
            if found := pattern.match(ast.get_docstring(node) or ""):
                yield f"line {getattr(node, 'lineno', 1)}: a docstring begins with {found[0]!r}"


def open_suppressions(text: str) -> Iterator[str]:
    """A suppression that hides more than the one fault that it was written for."""
    is_open = re.compile(r"type:\s*ignore(?!\[)|noqa(?!:\s*[A-Z]+[0-9]+)")
    if not is_open.search(text):
        return  # a text without one need not be cut into its tokens
    for line, comment in comments(text):
        if is_open.search(comment):
            yield f"line {line}: name the code: {comment}"


def sleeps(text: str) -> Iterator[str]:
    """A unit test that waits: there time is an argument. `sleep(0)` only lets others go first."""
    if "sleep" not in text:
        return
    for node in nodes(text):
        match node:
            case ast.Call(args=[ast.Constant(value=0)]):
                pass
            case ast.Call(func=ast.Attribute(attr="sleep") | ast.Name(id="sleep")):
                yield f"line {node.lineno}: sleeps"
            case _:
                pass


def fields_of_nothing(text: str) -> Iterator[str]:
    """A field of a dataclass where there is none: a struct takes it for a default, and mypy sees nothing."""
    if "@dataclass" not in text and re.search(r"^from dataclasses import .*\bfield\b", text, re.MULTILINE):
        yield "there is no dataclass for `field`: msgspec has one of its own"


def uncounted_lines(text: str) -> Iterator[str]:
    """A line of the rules that is hidden from the count of branches."""
    if "pragma" not in text:
        return
    for line, comment in comments(text):
        if "pragma" in comment:
            yield f"line {line}: {comment}"


def class_names(text: str) -> Iterator[str]:
    """The name of each class: no fault, but to be counted."""
    yield from (node.name for node in definitions(text) if isinstance(node, ast.ClassDef))


def untold_functions(text: str, told: frozenset[str] = frozenset()) -> Iterator[str]:
    """A public function or method without a docstring, unless its name is told elsewhere."""
    body = parsed(text).body
    methods = (member for node in body if isinstance(node, ast.ClassDef) for member in node.body)
    for function in (*body, *methods):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        name = function.name
        if not name.startswith("_") and name not in told and ast.get_docstring(function) is None:
            yield f"line {function.lineno}: {name} needs a docstring, or a place in a port"


def test_source_files_are_short() -> None:
    """No file of the package is longer than 400 lines, whatever its language."""
    paths = [path for ending in ("py", "sql", "lua", "js", "css", "html") for path in below("src/tokimori", ending)]
    assert [f"{path}: {fault}" for path in paths for fault in long_files(path.read_text())] == []


def test_the_stores_are_short_together() -> None:
    """All stores with their SQL and Lua have 18,966 lines at most."""
    paths = [path for path in (ROOT / "src/tokimori/stores").rglob("*") if path.suffix in {".py", ".sql", ".lua"}]
    assert len(paths) > 200
    assert sum(len(path.read_text().splitlines()) for path in paths) <= MOST_OF_STORES


def test_no_modules_import_each_other() -> None:
    """The imports of the package, typing-only and late ones included, have no circle."""
    graph = grimp.build_graph("tokimori", cache_dir=None)
    TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules}).prepare()


def test_functions_are_short() -> None:
    """No function of the package is longer than 60 lines."""
    assert faults(long_functions) == []


def test_no_call_on_a_runs_way_is_slow() -> None:
    """Nothing that is made for each run has more arguments than a call has room for."""
    assert faults(gathered_calls) == []


def test_nobody_inside_uses_the_front_door() -> None:
    """No module of the package imports the package's root."""
    assert faults(imports_of_the_root) == []


def test_every_test_says_what_must_hold() -> None:
    """Every test begins with a sentence that says what must hold."""
    assert faults(untold_tests) == []


def test_no_docstring_is_a_riddle() -> None:
    """A docstring of the package begins with what it is about: an imperative, or a noun phrase."""
    assert faults(riddles) == []


def test_suppressions_name_their_code() -> None:
    """Every suppressed fault is named by its code."""
    assert faults(open_suppressions) == []


def test_unit_tests_do_not_sleep() -> None:
    """No unit test sleeps."""
    assert faults(sleeps) == []


def test_a_store_tells_what_its_port_does_not() -> None:
    """What a public function of a store does is told in a port, in the rules of stores, or by itself."""
    told = frozenset(
        function.name
        for folder in ("ports", "stores/rules")
        for path in (ROOT / "src/tokimori" / folder).glob("*.py")
        for function in functions(path.read_text())
        if ast.get_docstring(function)
    )
    paths = below("src/tokimori/stores", "py")
    assert [f"{path}: {fault}" for path in paths for fault in untold_functions(path.read_text(), told)] == []


def test_a_field_belongs_to_a_dataclass() -> None:
    """No struct has a field of the module `dataclasses` for a default."""
    assert faults(fields_of_nothing) == []


def test_no_rule_is_hidden_from_coverage() -> None:
    """The model takes no line out of the count of branches."""
    assert faults(uncounted_lines) == []


def test_names_say_what_is_inside() -> None:
    """No file or folder has a name under which anything could be put."""
    paths = [path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*")]
    ours = [path.relative_to(ROOT) for path in paths if "node_modules" not in path.parts]
    assert [str(path) for path in ours if path.stem in VAGUE] == []


def test_every_word_of_the_house_is_in_the_glossary_once() -> None:
    """The glossary holds the words of the design, each once, in the order of the alphabet; they are 90 at most."""
    text = (ROOT / "docs/reference/glossary.md").read_text()
    words = re.findall(r"^\*\*(.+?)\*\*", text, re.MULTILINE)
    assert words == sorted(set(words), key=str.casefold)
    assert set(words) >= WORDS
    assert len(words) <= 90


def test_the_diagram_shows_the_table() -> None:
    """The page of the states of a run is what the table of transitions says."""
    assert run_states.PAGE.read_text() == run_states.page(), "run: make docs"


def test_the_tests_that_the_page_on_kojo_names_are_there() -> None:
    """Every test and every file of tests that stands on the page can be run."""
    page = (ROOT / "docs/coming-from/kojo.md").read_text()
    home = (ROOT / "tests/integration/acceptance/test_kojo.py").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)`", page)
    assert [path for path in named if not (ROOT / path).is_file()] == []
    tests = re.findall(r"`(test_\w+)`", page)
    assert len(tests) > 10
    assert [test for test in tests if f"def {test}(" not in home] == []


def test_the_tests_that_the_page_on_kala_names_are_there() -> None:
    """Every test and every file of tests that stands on the page can be run."""
    page = (ROOT / "docs/coming-from/kala.md").read_text()
    home = (ROOT / "tests/contract/foreign/test_kala.py").read_text()
    assert [path for path in re.findall(r"`(tests/[\w/]+\.py)`", page) if not (ROOT / path).is_file()] == []
    tests = re.findall(r"`(test_\w+)`", page)
    assert len(tests) > 10
    assert [test for test in tests if f"def {test}(" not in home] == []


@pytest.mark.parametrize(("page", "cases"), [("perfectsched", 30), ("kojo", 20)])
def test_every_case_of_a_source_has_a_test(page: str, cases: int) -> None:
    """Each case of PerfectSched's specs and of KojoFitness names tests that there are."""
    text = (ROOT / f"docs/coming-from/{page}.md").read_text()
    rows = [line for line in text.splitlines() if re.search(r"`test_\w+\.py::test_\w+`", line)]
    assert len(rows) >= cases
    named = {each for line in rows for each in re.findall(r"`(test_\w+\.py)::(test_\w+)`", line)}
    assert [each for each in named if not any(f"def {each[1]}(" in text for text in texts_of_tests()[each[0]])] == []


def test_the_tests_that_the_page_on_threats_names_are_there() -> None:
    """Each attack on the page is tried by tests that there are."""
    page = (ROOT / "docs/explanation/threats.md").read_text()
    _, _, tables = page.partition("## What was tried")
    rows = re.findall(r"^\| (.+) \| (.+) \| (.+) \|$", tables.partition("## What is not")[0], re.MULTILINE)
    attacks = [(attack, tests) for attack, _, tests in rows if attack != "attack"]
    assert len(attacks) > 20
    for attack, tests in attacks:
        named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", tests)
        assert named, attack
        for file, test in named:
            assert any(f"def {test}(" in home for home in texts_of_tests()[file]), f"{file}::{test}"


def test_a_class_has_a_name_of_its_own() -> None:
    """No class name stands in more than two places: a name says which of its kind it is."""
    names = Counter(each.rpartition(": ")[2] for each in faults(class_names))
    assert {name: number for name, number in names.items() if number > 2} == {}


def test_decisions_are_records() -> None:
    """Every decision in force has its own number and its three parts, and stands in the index; they are 50 at most."""
    folder = ROOT / "docs/decisions"
    records = sorted(folder.glob("[0-9]*.md"))
    assert [record.name[:4] for record in records] == [f"{number:04}" for number in range(1, len(records) + 1)]
    assert len(records) <= 50
    index = re.findall(r"^\* \[(\d+)\. .+\]\((.+)\)$", (folder / "README.md").read_text(), re.MULTILINE)
    assert [(f"{int(number):04}", name) for number, name in index] == [(each.name[:4], each.name) for each in records]
    for record in records:
        text = record.read_text()
        assert text.startswith(f"# {int(record.name[:4])}. "), record.name
        parts = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert parts == ["Context", "Decision", "Consequences"], record.name


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (long_files, "\n" * 401),
        (long_functions, "def f():\n" + "    pass\n" * 60),
        (long_functions, "class C:\n async def f():\n" + "    pass\n" * 60),
        (gathered_calls, f"f({', '.join(f'a{n}=1' for n in range(16))})"),
        (imports_of_the_root, "import tokimori"),
        (imports_of_the_root, "def f():\n    from tokimori import open"),
        (riddles, "class A:\n    'What a client stands on.'"),
        (riddles, "'How it goes.'"),
        (riddles, "async def f():\n    'Whether it goes.'"),
        (untold_tests, "def test_a(): pass"),
        (untold_tests, "class TestA:\n    async def test_a(self):\n        '''No full stop'''"),
        (untold_tests, "def test_a():\n    '''One sentence. And another.'''"),
        (open_suppressions, "x = 1  # type: " + "ignore"),
        (open_suppressions, "x = 1  # no" + "qa"),
        (sleeps, "import time\ntime.sleep(1)"),
        (sleeps, "async def f():\n    await sleep(1)"),
        (
            fields_of_nothing,
            "from dataclasses import field\nclass A(Struct):\n    a: list = field()",
        ),
        (uncounted_lines, "x = 1  # pragma: no cover"),
        (untold_functions, "class C:\n    async def f(self):\n        pass"),
    ],
)
def test_each_rule_finds_what_breaks_it(check: Check, text: str) -> None:
    """A text that breaks a rule is found by it."""
    assert list(check(text))


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (long_files, "\n" * 400),
        (long_functions, "def f():\n" + "    pass\n" * 59),
        (gathered_calls, f"f(1, 2, {', '.join(f'a{n}=1' for n in range(14))})"),
        (imports_of_the_root, "from tokimori.model.run import Run\nimport tokimori.clock"),
        (untold_tests, "def test_a():\n    '''A thing holds, e.g. this one.\n\n    Because. Of that.\n    '''"),
        (open_suppressions, "x = 1  # type: ignore[attr-defined]  # noqa: S101"),
        (riddles, "'Items.'\nclass A:\n    'Base of a client.'\ndef f():\n    'Return what it is.'"),
        (open_suppressions, "x = '# noqa'"),
        (fields_of_nothing, "from dataclasses import dataclass, field\n@dataclass\nclass A:\n    a: list = field()"),
        (sleeps, "sleeps(3)\nasleep()\nsleep(0)"),
        (untold_functions, "def f():\n    'Do.'\n\ndef _f(): pass"),
    ],
)
def test_each_rule_lets_good_text_pass(check: Check, text: str) -> None:
    """A text that keeps a rule is not found by it."""
    assert list(check(text)) == []


WORDS = frozenset(
    {
        "attempt",
        "claim",
        "cursor",
        "gate",
        "incarnation",
        "job",
        "keeper",
        "lane",
        "ledger",
        "misfire",
        "mutex",
        "node",
        "occurrence",
        "origin",
        "outcome",
        "permit",
        "rank",
        "run",
        "schedule",
        "semaphore",
        "signal",
        "skip",
        "store",
        "target",
    }
)


CHECKED: dict[Check, Sequence[str]] = {
    long_functions: ["src/tokimori"],
    class_names: ["src/tokimori"],
    gathered_calls: [f"src/tokimori/{room}" for room in ("apps", "engine", "executors", "model")],
    imports_of_the_root: ["src/tokimori"],
    riddles: ["src/tokimori"],
    untold_tests: ["tests"],
    open_suppressions: ["src", "tests", "benchmarks"],
    sleeps: ["tests/unit"],
    fields_of_nothing: ["src/tokimori"],
    uncounted_lines: ["src/tokimori/model"],
}
"""Below which folders a rule holds for every Python file."""


def below(folder: str, ending: str) -> Sequence[Path]:
    """The files of a kind below a folder."""
    return sorted((ROOT / folder).rglob(f"*.{ending}"))


def faults(check: Check) -> Sequence[str]:
    """What a check finds in the files that it is for."""
    return all_faults()[check]


@cache
def all_faults() -> dict[Check, Sequence[str]]:
    """What each check finds, file by file, so that each file is parsed once."""
    found: dict[Check, list[str]] = {check: [] for check in CHECKED}
    for path in (path for folder in ("src", "tests", "benchmarks") for path in below(folder, "py")):
        name, text = str(path.relative_to(ROOT)), path.read_text()
        for check, folders in CHECKED.items():
            if name.startswith(tuple(f"{folder}/" for folder in folders)):
                found[check] += [f"{name}: {fault}" for fault in check(text)]
    return dict(found)


@cache
def texts_of_tests() -> dict[str, Sequence[str]]:
    """The texts of all files of tests of a name."""
    texts: dict[str, list[str]] = defaultdict(list)
    for path in below("tests", "py"):
        texts[path.name].append(path.read_text())
    return dict(texts)


@lru_cache(maxsize=1)
def parsed(text: str) -> ast.Module:
    """The tree of a source text, for all checks of it one after the other."""
    return ast.parse(text)


@lru_cache(maxsize=1)
def nodes(text: str) -> Sequence[ast.AST]:
    """Every node of a source text."""
    return list(ast.walk(parsed(text)))


def functions(text: str) -> Sequence[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a source text, from the outermost ones on."""
    return [node for node in definitions(text) if not isinstance(node, ast.ClassDef)]


@lru_cache(maxsize=1)
def definitions(text: str) -> Sequence[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Every function and class of a source text, from the outermost ones on."""
    found: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] = []
    level: list[ast.AST] = [parsed(text)]
    while level:
        found += [node for node in level if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
        level = [each for node in level for each in statements_of(node)]
    return found


def statements_of(node: ast.AST) -> Iterator[ast.AST]:
    """What stands in a statement's blocks. No function stands in an expression, and nine of ten nodes belong to one."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        yield from getattr(node, block, ())


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Every comment of a source text, with its line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
