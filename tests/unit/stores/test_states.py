"""States in SQL and Lua are words of the model: nothing else tells a misspelt one from another."""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import chain

import pytest

from tests.unit.stores.statements import Query, Statement, lua, queries, sql
from tokimori.model.dependents import On
from tokimori.model.job import JobState
from tokimori.model.run import SkipReason
from tokimori.model.semaphores import KEY_LINE
from tokimori.model.transitions import ENDS, TRANSITIONS, RunState
from tokimori.ports.nodes import NodeState
from tokimori.ports.working import Verdict
from tokimori.stores.redis import layout
from tokimori.stores.rows import JOB, NODE, RUN

STATES: dict[str, type[StrEnum]] = {
    "tokimori_jobs": JobState,
    "tokimori_runs": RunState,
    "tokimori_history": RunState,
    "tokimori_nodes": NodeState,
}
"""The column `state` of each table."""
KNOWN = {str(word) for kind in (JobState, RunState, NodeState, SkipReason) for word in kind}
ANSWERS = {
    *(
        "added",
        "begun",
        "changed",
        "deleted",
        "expires",
        "expiry",
        "full",
        "gone",
        "granted",
        "known",
        "made",
        "moving",
        "other family",
        "other job",
        "parent",
    ),
    *("refused", "replaced", "taken", "unknown"),
}
"""What functions and scripts answer."""
OTHERS = {*map(str, chain(On, Verdict)), KEY_LINE, *ANSWERS}
FIELDS = {"limit", "weight", "priority", "incarnation", "g", "job", "left", "smooth"}
"""Names in JSON, and what is greater than every run's id."""
CATALOGUE = {"column", "fsync", "function", "index", "now", "off", "r", "table", "there"}
"""What statements on a server's own tables and settings say, and SQLite's word for its clock."""
_STATE = re.compile(
    r"(?:\b(\w+)\.)?(?<!\w)_?state\s*(?:=|<>|:=|IS NOT DISTINCT FROM|IS NOT|IS|NOT IN|IN)\s*(\(\s*'[^)]*\)|'[^']*')"
)
_SET_STATE = re.compile(r"\bSET\b(?:(?!\bWHERE\b).)*?(?<![\w.])state = ('[^']*')", re.DOTALL)
_WORD = re.compile(r"'([a-z]+(?: [a-z]+)*)'")


def told(statement: Statement) -> Iterator[tuple[set[str], str]]:
    """Each word with which a column `state` is compared, or that is put there; and of which tables it may be."""
    for query in queries(statement.text):
        for alias, words in _STATE.findall(query.text):
            yield from ((query.tables_of(alias or None), word) for word in re.findall("'([^']*)'", words))


def misspelt(statements: Iterable[Statement]) -> list[tuple[str, str]]:
    """Words that are no state of their table, and where they stand."""
    return [
        (statement.where, word)
        for statement in statements
        for tables, word in told(statement)
        if word not in ({str(each) for table in tables if table in STATES for each in STATES[table]} or KNOWN)
    ]


def test_a_state_in_sql_is_one_of_its_table() -> None:
    """What a statement says of the state of jobs, runs or nodes is one of their states."""
    statements = list(sql())
    assert sum(len(list(told(statement))) for statement in statements) > 200
    assert misspelt(statements) == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("SELECT 1 FROM tokimori_runs WHERE state = 'runing'", "runing"),
        ("UPDATE tokimori_nodes SET state = 'dead' WHERE state IN ('alive', 'enabled')", "enabled"),
        ("SELECT 1 FROM tokimori_runs r JOIN tokimori_jobs j ON j.id = r.id WHERE j.state = 'ready'", "ready"),
        (
            "UPDATE tokimori_jobs j SET lane = NULL WHERE (SELECT state FROM tokimori_runs WHERE state <> 'gone')",
            "gone",
        ),
        ("_child.state := 'ful'", "ful"),
    ],
)
def test_a_misspelt_state_is_seen(text: str, word: str) -> None:
    """An unknown word is found, and so is a state of another table."""
    assert misspelt([Statement("here", text)]) == [("here", word)]


def moves(query: Query) -> Iterator[tuple[str, str]]:
    """From which state to which a statement on runs moves them, as far as it says."""
    if re.match(r"\s*UPDATE tokimori_runs\b", query.text):
        before = [word for _, words in _STATE.findall(_SET_STATE.sub("", query.text)) for word in _WORD.findall(words)]
        yield from ((old, new[1:-1]) for new in _SET_STATE.findall(query.text) for old in before)


def test_a_statement_moves_runs_as_the_table_says() -> None:
    """Where a statement says from which state to which runs go, the table of transitions has that."""
    table = {(str(old), str(new)) for (old, _), new in TRANSITIONS.items()}
    said = {move for statement in sql() for query in queries(statement.text) for move in moves(query)}
    assert ("blocked", "ready") in said
    assert said <= table


def test_words_in_sql_are_known() -> None:
    """Every word in quotes is a state, a reason, or another that the model or a store names."""
    words = [(each.where, word) for each in sql() for word in _WORD.findall(each.text)]
    assert len(words) > 300
    assert [(where, word) for where, word in words if word not in KNOWN | OTHERS | FIELDS | CATALOGUE] == []


def test_words_in_lua_are_known() -> None:
    """Every word in quotes is a state, a reason, an answer, or a key or field that the layout or a row names."""
    names = set(re.findall("[a-z_]+", f"{layout.__doc__} {RUN} {JOB} {NODE}"))
    words = [(each.where, word) for each in lua() for word in re.findall("'([a-z_]+)'", each.text)]
    assert len(words) > 400
    assert [(where, word) for where, word in words if word not in KNOWN | OTHERS | names] == []


_IN_LUA = re.compile(r"\bstate (?:==|~=|=) '([^']*)'|'HSET', [^)]*?'state', '([^']*)'")


def test_a_state_in_lua_is_one_of_the_model() -> None:
    """What a script says of a state is one: compared with it, put there, or as a key of a table."""
    said = ["".join(found) for each in lua() for found in _IN_LUA.findall(each.text)]
    assert len(said) > 30
    assert set(said) <= KNOWN
    tables = [words for each in lua() for words in re.findall("ENDS = {(.*)}", each.text)]
    assert [set(re.findall(r"(\w+) = true", words)) for words in tables] == [set(map(str, ENDS))]
