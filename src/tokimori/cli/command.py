"""Commands that accept the global options anywhere on the line, and groups that import a command when it is called."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from tokimori.cli.suggesting import command_hint

OUTPUTS = ("table", "wide", "json", "jsonl", "csv", "ids")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The global options, wherever they stood on the line."""

    server: str | None = None
    context: str | None = None
    store: str | None
    semaphore_store: str | None
    config: Path | None
    output: str
    """One of `OUTPUTS`."""
    debug: bool
    plain: bool = False
    """Whether a terminal gets neither colours nor signs."""

    @property
    def as_json(self) -> bool:
        """Whether what is printed is for a program that reads JSON."""
        return self.output in {"json", "jsonl"}


def options() -> Options:
    """The global options of the running command."""
    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    printed = "wide" if meta.get("wide", False) else meta.get("output", "table")
    config = meta.get("config")
    return Options(
        server=meta.get("server"),
        context=meta.get("context"),
        store=meta.get("store"),
        semaphore_store=meta.get("semaphore_store"),
        config=None if config is None else Path(config),
        output="json" if meta.get("json", False) else printed,
        debug=meta.get("debug", False),
        plain=meta.get("plain", False),
    )


class Command(click.Command):
    """A command that accepts the global options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _global_options()


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
        """Show it in the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- ARGV...]"]


def arguments_given() -> tuple[str, ...] | None:
    """What came after `--`; None where there was none."""
    found: tuple[str, ...] | None = click.get_current_context().meta.get("arguments")
    return found


class Group(click.Group):
    """A group of commands; `nouns` are imported when they are called: name → (module:attribute, help)."""

    command_class = Command

    def __init__(self, *args: Any, nouns: Mapping[str, tuple[str, str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._nouns = dict(nouns or {})
        self.params += _global_options()

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order in which they were written."""
        return [*self._nouns, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported if it has to be."""
        if cmd_name not in self._nouns:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._nouns[cmd_name][0].partition(":")
        found: click.Command = getattr(import_module(module), attribute)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the line names. Raises `UsageError`, with the one that may have been meant."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            raise click.UsageError(f"No such command {name!r}{command_hint(name, self.list_commands(ctx))}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The names with their help, importing nothing."""
        rows = [(name, help_text) for name, (_, help_text) in self._nouns.items()]
        rows += [(name, command.get_short_help_str(90)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _global_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--server"], metavar="URL", expose_value=False, callback=_keep("server"), help="The node to ask instead."
        ),
        click.Option(
            ["--context"], metavar="NAME", expose_value=False, callback=_keep("context"), help="The same, by its name."
        ),
        click.Option(["--store"], metavar="URL", expose_value=False, callback=_keep("store"), help="The store to use."),
        click.Option(
            ["--semaphore-store"],
            metavar="URL",
            expose_value=False,
            callback=_keep("semaphore_store"),
            help="The store of semaphores, if it is another.",
        ),
        click.Option(
            ["-c", "--config"],
            metavar="FILE",
            expose_value=False,
            callback=_keep("config"),
            help="The configuration file.",
        ),
        click.Option(
            ["--json"], is_flag=True, expose_value=False, callback=_keep("json"), help="Print JSON, errors too."
        ),
        click.Option(
            ["-o", "--output"],
            type=click.Choice(OUTPUTS),
            expose_value=False,
            callback=_keep("output"),
            help="How to print; wide: whole texts and times.",
        ),
        click.Option(["--wide"], is_flag=True, expose_value=False, callback=_keep("wide"), help="The same as -o wide."),
        click.Option(
            ["--plain"], is_flag=True, expose_value=False, callback=_keep("plain"), help="No colours and no signs."
        ),
        click.Option(
            ["--debug"], is_flag=True, expose_value=False, callback=_keep("debug"), help="Show the traceback of a bug."
        ),
    ]


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def keep(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value:
            ctx.meta[name] = value

    return keep
