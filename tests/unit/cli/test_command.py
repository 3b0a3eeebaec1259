"""Global options and imported commands."""

from pathlib import Path

import pytest

from tokimori.cli.command import CommandWithArguments, Group, Options, arguments_given, options
from tokimori.cli.errors import run


def program() -> tuple[Group, list[tuple[Options, tuple[str, ...] | None]]]:
    """A program `noun verb`, and what its calls were given."""
    seen: list[tuple[Options, tuple[str, ...] | None]] = []
    group, noun = Group("tokimori"), Group("noun")
    noun.add_command(CommandWithArguments("verb", callback=lambda: seen.append((options(), arguments_given()))))
    group.add_command(noun)
    return group, seen


@pytest.mark.parametrize(
    "line",
    [
        "--store memory: --json -c f noun verb",
        "noun --store memory: --json -c f verb",
        "noun verb --store memory: --json --config f",
        "--store memory: noun --json verb -c f",
    ],
)
def test_global_options_may_stand_anywhere(line: str) -> None:
    """Before, between and after the words of a command."""
    group, seen = program()
    assert run(group, line.split()) == 0
    assert seen == [
        (Options(store="memory:", semaphore_store=None, config=Path("f"), output="json", debug=False), None)
    ]


@pytest.mark.parametrize("option", ["--store", "--server", "--context"])
def test_an_empty_word_is_none(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A script whose variable is not set means no other store than it says."""
    group, seen = program()
    assert run(group, [option, "", "noun", "verb"]) == 2
    assert seen == []
    assert f"'{option}': it is empty" in capsys.readouterr().err


def test_the_last_word_wins() -> None:
    """What stands nearer to the end of the line is what was meant."""
    group, seen = program()
    run(group, ["--store", "a:", "noun", "verb", "--store", "b:"])
    assert seen[0][0].store == "b:"


def test_everything_after_two_dashes_is_the_program() -> None:
    """Options that look like ours, too; nothing after them is not the same as no dashes."""
    group, seen = program()
    run(group, ["noun", "verb", "--json", "--", "make", "--store", "x", "--", "y"])
    run(group, ["noun", "verb", "--"])
    assert [arguments for _, arguments in seen] == [("make", "--store", "x", "--", "y"), ()]
    assert seen[0][0] == Options(store=None, semaphore_store=None, config=None, output="json", debug=False)


def test_stray_words_are_refused() -> None:
    """A program stands after two dashes and nowhere else."""
    group, seen = program()
    assert run(group, ["noun", "verb", "make", "report"]) == 2
    assert seen == []


def test_help_imports_no_noun(capsys: pytest.CaptureFixture[str]) -> None:
    """What is listed need not exist before it is called."""
    group = Group("tokimori", nouns={"noun": ("no.such.module:noun", "Says what it is.")})
    assert run(group, ["--help"]) == 0
    assert "noun  Says what it is." in capsys.readouterr().out
