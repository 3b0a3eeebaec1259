"""The options that every command accepts, and how help shows options."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

PROGRAM = "tokimori"
OUTPUTS = ("table", "wide", "json", "jsonl", "csv", "ids")
PREFIX = "template="
"""How an output begins that is a template."""
_EVERYWHERE = (
    *("server", "context", "cacert", "store", "semaphore_store", "config"),
    *("json", "output", "wide", "plain", "debug"),
)


def write_options(
    command: click.Command,
    ctx: click.Context,
    formatter: click.HelpFormatter,
    sections: Mapping[str, Sequence[str]],
    examples: Sequence[tuple[str, str]],
) -> None:
    """Write the options of a command by section, examples, and last the options that every command has."""
    own_rows = _rows(command, ctx)
    last = (*_EVERYWHERE, "version", "help")
    in_sections = {*last, *(name for names in sections.values() for name in names)}
    own = [name for name in own_rows if name not in in_sections]
    for title, names in {"Options": own, **sections}.items():
        if rows := [row for name in names for row in own_rows.get(name, ())]:
            with formatter.section(title):
                formatter.write_dl(rows)
    if examples:
        with formatter.section("Examples"):
            for line, meaning in examples:
                formatter.write(f"  {PROGRAM} {line}\n" + (f"      {meaning}\n" if meaning else ""))
    with formatter.section("Options everywhere"):
        formatter.write_dl([row for name in last for row in own_rows.get(name, ())])


def _rows(command: click.Command, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
    """Return the help of the options, by the names of their values: several options may set one value."""
    rows: dict[str, list[tuple[str, str]]] = {}
    for each in command.get_params(ctx):
        if isinstance(each, click.Option) and (row := each.get_help_record(ctx)) is not None:
            rows.setdefault("help" if "--help" in each.opts else str(each.name), []).append(row)
    return rows


def global_options() -> list[click.Parameter]:
    """Return the global options of one command: their values hold for the whole line (`command.options`)."""
    forms = f"[{'|'.join(OUTPUTS)}|template=TEXT]"
    form_help = "How to print; wide: whole texts and times; a template such as '{{ id }} {{ state }}'."
    return [
        _global("--server", metavar="URL", help="The node to ask instead."),
        _global("--context", metavar="NAME", help="The same, by its name."),
        _global("--cacert", metavar="FILE", help="Certificates that vouch for it."),
        _global("--store", metavar="URL", help="The store to use."),
        _global("--semaphore-store", metavar="URL", help="The store of semaphores, if it is another."),
        _global("--config", "-c", metavar="FILE", help="The configuration file."),
        _global("--json", is_flag=True, help="Print JSON, errors too."),
        _global("--output", "-o", type=_Output(OUTPUTS), metavar=forms, help=form_help),
        _global("--wide", is_flag=True, help="The same as -o wide."),
        _global("--plain", is_flag=True, help="No colours and no signs."),
        _global("--debug", is_flag=True, help="Show the traceback of a bug."),
    ]


def _global(name: str, *short: str, **rest: Any) -> click.Option:
    """Return the option, which is kept for the whole line instead of passed to the command."""
    kept = name.removeprefix("--").replace("-", "_")
    return click.Option([*short, name], expose_value=False, callback=_store_option(kept), **rest)


class _Output(click.Choice[str]):
    """One of the forms, or a template."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value. Raises `InvalidInput` for a template that can't be one."""
        if not str(value).startswith(PREFIX):
            return super().convert(value, param, ctx)
        from tokimori.cli.template import check_template

        return f"{PREFIX}{check_template(str(value).removeprefix(PREFIX))}"


def _store_option(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def store(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value == "":  # of a variable in a script that is not set: the default would be another store
            raise click.BadParameter("it is empty", ctx, parameter)
        if value:
            ctx.meta[name] = value

    return store
