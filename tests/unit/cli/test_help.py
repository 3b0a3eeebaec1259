"""What help shows, of every command."""

import re
import shlex
from collections.abc import Iterator

import click

from tokimori.cli.main import program


def commands_of(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command and group below this one, with the words that name it."""
    yield words, group
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands_of(found, (*words, name))
        else:
            yield (*words, name), found


def test_the_help_of_every_command_names_each_option_once() -> None:
    """In sections, which name no option that there is not, and all commands; the options that all have stand last."""
    for words, command in commands_of(program):
        context = click.Context(command, info_name=" ".join(words))
        formatter = context.make_formatter()
        command.format_options(context, formatter)
        text = formatter.getvalue()
        options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
        shown = re.findall(r"^  (?:-\w, )?(-{1,2}[\w-]+)", text, re.MULTILINE)
        assert sorted(shown) == sorted(set(shown)), words
        assert len(shown) == len([each for each in options if not each.hidden]), words
        named = {name for names in getattr(command, "_sections", {}).values() for name in names}
        known = set(command.list_commands(context)) if isinstance(command, click.Group) else {e.name for e in options}
        assert named <= known, words
        assert not (named and isinstance(command, click.Group)) or named == known, words


def test_help_has_the_words_of_users() -> None:
    """What answers over HTTP is no door, which is a word of the design."""
    for words, command in commands_of(program):
        context = click.Context(command, info_name=" ".join(words))
        assert re.search(r"\bdoors?\b", command.get_help(context), re.IGNORECASE) is None, words


def test_every_example_of_the_help_is_understood() -> None:
    """Each is a line that can be typed: its command and options are there, and its values are allowed."""
    examples = [line for _, command in commands_of(program) for line, _ in getattr(command, "_examples", ())]
    assert len(examples) > 10
    for line in examples:
        found: click.Command = program
        arguments = shlex.split(line.partition(" | ")[0])
        while isinstance(found, click.Group):
            command = found.get_command(click.Context(found), arguments.pop(0))
            assert command is not None, line
            found = command
        found.make_context("example", arguments)
