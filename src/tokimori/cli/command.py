"""Commands that accept the global options anywhere on the line, and groups that import a command when it is called."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from tokimori.cli.global_options import PREFIX, global_options, write_options
from tokimori.cli.suggestions import command_hint


class Options(Struct, frozen=True, kw_only=True):
    """The global options, from any place on the line."""

    server: str | None = None
    context: str | None = None
    cacert: str | None = None
    store: str | None
    semaphore_store: str | None
    config: Path | None
    output: str
    """One of `OUTPUTS`, or `template=` and a template."""
    debug: bool
    plain: bool = False
    """Whether a terminal gets neither colours nor signs."""

    @property
    def as_json(self) -> bool:
        """Return whether a program reads the output as JSON; with a template, its texts."""
        return self.output in {"json", "jsonl"} or self.template is not None

    @property
    def template(self) -> str | None:
        """Return the template for each thing; None for one of the other forms."""
        return self.output.removeprefix(PREFIX) if self.output.startswith(PREFIX) else None


def options() -> Options:
    """Return the global options of the running command."""
    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    printed = "wide" if meta.get("wide", False) else meta.get("output", "table")
    config = meta.get("config")
    return Options(
        server=meta.get("server"),
        context=meta.get("context"),
        cacert=meta.get("cacert"),
        store=meta.get("store"),
        semaphore_store=meta.get("semaphore_store"),
        config=None if config is None else Path(config),
        output="json" if meta.get("json", False) else printed,
        debug=meta.get("debug", False),
        plain=meta.get("plain", False),
    )


class Command(click.Command):
    """A command that accepts the global options.

    Its help shows options in `sections` (title → names of parameters; the rest comes first), and then `examples`.
    """

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, Sequence[str]] | None = None,
        examples: Sequence[tuple[str, str]] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._sections = dict(sections or {})
        self._examples = examples
        self.params += global_options()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write its own options, examples, and the options that every command has."""
        write_options(self, ctx, formatter, self._sections, self._examples)


class CommandWithArguments(Command):
    """A command that takes everything after `--`, and only that, as a program and its arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what comes after the first `--` apart."""
        if "--" in args:
            place = args.index("--")
            ctx.meta["arguments"] = tuple(args[place + 1 :])
            args = args[:place]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Add the arguments after `--` to the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- ARGV...]"]


def arguments_given() -> tuple[str, ...] | None:
    """Return the arguments after `--`; None if there is none."""
    found: tuple[str, ...] | None = click.get_current_context().meta.get("arguments")
    return found


class Group(click.Group):
    """A group of commands; `nouns` are imported when they are called: name → (module:attribute, help).

    The help shows them in `sections` (title → names; the rest comes last), and then `examples`: a line without the
    name of the program, and what it does.
    """

    command_class = Command

    def __init__(
        self,
        *args: Any,
        nouns: Mapping[str, tuple[str, str]] | None = None,
        sections: Mapping[str, Sequence[str]] | None = None,
        examples: Sequence[tuple[str, str]] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._nouns = dict(nouns or {})
        self._sections = dict(sections or {})
        self._examples = examples
        self.params += global_options()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the line. For an option that is the name of a command (`task --create --name=x`) the error says so."""
        words = " ".join(args).replace("=", " ").split()
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            known = self.list_commands(ctx)
            if (meant := next((word[2:] for word in words if word[:2] == "--" and word[2:] in known), None)) is None:
                raise
            name = next((f" {value}" for word, value in pairwise(words) if word == "--name"), "")
            message = f"No such option {error.option_name!r}; did you mean `{ctx.command_path} {meant}{name}`?"
            raise click.UsageError(message, ctx) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, in the order in which they were written."""
        return [*self._nouns, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported if it has to be."""
        if cmd_name not in self._nouns:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._nouns[cmd_name][0].partition(":")
        found: click.Command = getattr(import_module(module), attribute)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the line names. Raises `UsageError`, with the one that may have been meant."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            raise click.UsageError(f"No such command {name!r}{command_hint(name, self.list_commands(ctx))}", ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands first: most people look for one of them."""
        self.format_commands(ctx, formatter)
        write_options(self, ctx, formatter, {}, self._examples)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names with their help, importing nothing."""
        rows = {name: help_text for name, (_, help_text) in self._nouns.items()}
        rows |= {name: command.get_short_help_str(90) for name, command in self.commands.items()}
        in_sections = {name for names in self._sections.values() for name in names}
        rest = [name for name in rows if name not in in_sections]
        for title, names in {**self._sections, "More commands" if in_sections else "Commands": rest}.items():
            if found := [(name, rows[name]) for name in names if name in rows]:
                with formatter.section(title):
                    formatter.write_dl(found)
