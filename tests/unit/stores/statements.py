"""The statements of all stores as texts: files of SQL and Lua, and what Python sends as SQL."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import tokimori.stores

ROOT = Path(tokimori.stores.__file__).parent
_SQL = re.compile(r"\b(SELECT|UPDATE|INSERT|DELETE|FROM|WHERE|SET|AND|OR|IN)\b")
_TABLE = re.compile(r"\b(?:FROM|JOIN|UPDATE|INTO)\s+(\{\}|\w+)(?:\s+(?:AS\s+)?([a-z]\w*)\b)?")


class Statement(NamedTuple):
    """A text without comments, and where it stands."""

    where: str
    text: str


def sql() -> Iterator[Statement]:
    """All SQL. What a Python string leaves open is `{}`."""
    for path in sorted(ROOT.rglob("*.sql")):
        text = re.sub(r"--[^\n]*", "", path.read_text())
        yield from (Statement(str(path.relative_to(ROOT)), part) for part in text.split(";"))
    for path in sorted(ROOT.rglob("*.py")):
        for line, text in _strings(ast.parse(path.read_text())):
            if _SQL.search(text):
                yield Statement(f"{path.relative_to(ROOT)}:{line}", text)


def lua() -> Iterator[Statement]:
    """All scripts."""
    for path in sorted(ROOT.rglob("*.lua")):
        yield Statement(str(path.relative_to(ROOT)), re.sub(r"--[^\n]*", "", path.read_text()))


def _strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The strings of a module, but for docstrings; an f-string as one."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Expr(value=ast.Constant()):
                pass
            case ast.Constant(value=str(text)):
                yield node.lineno, text
            case ast.JoinedStr(values=values):
                parts = (each.value if isinstance(each, ast.Constant) else "{}" for each in values)
                yield node.lineno, "".join(map(str, parts))
                yield from (
                    found for each in values if isinstance(each, ast.FormattedValue) for found in _strings(each)
                )
            case _:
                yield from _strings(node)


class Query(NamedTuple):
    """What stands between two parentheses of a statement, inner ones left out, and which tables it names."""

    text: str
    tables: dict[str, str]
    """By alias; by its own name, where a table has none."""
    outer: "Query | None"

    def tables_of(self, alias: str | None) -> set[str]:
        """The tables whose column this may be; none where that can't be told."""
        if alias is None and self.tables:
            return set(self.tables.values())
        if alias in self.tables:
            return {self.tables[alias]}
        return set() if self.outer is None else self.outer.tables_of(alias)


def queries(statement: str) -> Iterator[Query]:
    """The statement and each of its parts in parentheses, the outer ones first."""
    texts, parents, inside = [""], [0], [0]
    for piece in re.split(r"('[^']*'|[()])", statement):
        if piece == "(":
            texts[inside[-1]] += "( "
            parents.append(inside[-1])
            inside.append(len(texts))
            texts.append("")
        elif piece == ")" and len(inside) > 1:
            texts[inside[-2]] += f"{_words_of(texts[inside.pop()])} )"
        else:
            texts[inside[-1]] += piece
    made: list[Query] = []
    for number, text in enumerate(texts):
        tables = {alias or table: table for table, alias in _TABLE.findall(text)}
        made.append(Query(text, tables, made[parents[number]] if number else None))
    yield from made


def _words_of(text: str) -> str:
    """A list of words, as after IN, belongs to what stands before it."""
    return text if re.fullmatch(r"\s*'[^']*'(\s*,\s*'[^']*')*\s*", text) else ""
