"""`tokimori man`: the manual pages, made from what the help says."""

import re
from collections.abc import Iterator
from pathlib import Path

import click

from tokimori.cli.command import Command
from tokimori.cli.global_options import PROGRAM
from tokimori.cli.output import print_answer, print_text, write_file

_SECTION = "1"
_HEADING = re.compile(r"^(\S.*):$")
"""How a section of the help begins."""


@click.command(
    cls=Command,
    examples=(
        ("man | man -l -", "the page of the program itself"),
        ("man job add | man -l -", "that of a command"),
        ("man --to ~/.local/share/man/man1", "all of them, where `man tokimori-job-add` finds them"),
    ),
)
@click.argument("words", metavar="[COMMAND...]", nargs=-1)
@click.option("--to", "folder", type=click.Path(path_type=Path), metavar="FOLDER", help="Write all pages there.")
def man(words: tuple[str, ...], *, folder: Path | None) -> None:
    """Print the manual page of a command, or write all of them into a folder."""
    program = click.get_current_context().find_root().command
    pages = dict(_pages(program, ()))
    if folder is None:
        if words not in pages:
            raise click.UsageError(f"There is no command {' '.join(words)!r}")
        print_text(pages[words])
        return
    for name, page in pages.items():
        write_file(folder / f"{'-'.join((PROGRAM, *name))}.{_SECTION}", page)
    print_answer({"folder": str(folder), "pages": len(pages)}, f"wrote {len(pages)} pages to {folder}")


def _pages(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the page of a command and of each below it, by the words that name it."""
    context = click.Context(command, info_name=" ".join((PROGRAM, *words)))
    yield words, page_of(command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if (below := command.get_command(context, name)) is not None:
                yield from _pages(below, (*words, name))


def page_of(command: click.Command, context: click.Context) -> str:
    """Return the page in the language of `man`."""
    from importlib.metadata import version

    name = str(context.info_name)
    formatter = click.HelpFormatter(width=100)
    command.format_options(context, formatter)
    usage = " ".join(command.collect_usage_pieces(context))
    return "\n".join(
        [
            f'.TH "{name.replace(" ", "-").upper()}" "{_SECTION}" "" "{PROGRAM} {version(PROGRAM)}" "{PROGRAM}"',
            ".SH NAME",
            f"{_escaped(name.replace(' ', '-'))} \\- {_escaped(command.get_short_help_str(120))}",
            ".SH SYNOPSIS",
            _escaped(f"{name} {usage}"),
            ".SH DESCRIPTION",
            *_paragraphs(command.help or ""),
            *_sections(formatter.getvalue()),
            "",
        ]
    )


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        yield ".PP"
        if paragraph.startswith("\b"):  # click keeps these lines as they are, and so does man
            yield from (".nf", *map(_escaped, paragraph.strip("\b\n").splitlines()), ".fi")
        else:
            yield _escaped(" ".join(paragraph.split()))


def _sections(text: str) -> Iterator[str]:
    """Yield the sections of the help, whose lines stay as they are."""
    is_open = False
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            yield from [".fi"] * is_open
            yield from (f'.SH "{heading[1].upper()}"', ".nf")
            is_open = True
        elif line.strip():
            yield _escaped(line)
    yield from [".fi"] * is_open


def _escaped(text: str) -> str:
    """Return text in which nothing is an order of `man`."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped
