"""`tokimori completion SHELL`"""

import os
from pathlib import Path

import click

from tokimori.cli.command import Command
from tokimori.cli.output import print_lines, print_text

VARIABLE = "_TOKIMORI_COMPLETE"
"""With it a shell asks for what may follow."""
_PLACES = {
    "bash": ".local/share/bash-completion/completions/tokimori",
    "zsh": ".local/share/zsh/site-functions/_tokimori",
    "fish": ".config/fish/completions/tokimori.fish",
}
"""Where a shell finds it, in the folder of the user."""
_ZSH = "zsh reads it when the folder stands in `fpath`, before `compinit`: fpath+=(~/.local/share/zsh/site-functions)"


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(sorted(_PLACES)))
@click.option("--install", is_flag=True, help="Write it where the shell looks for it, in your home.")
def completion(shell: str, *, install: bool) -> None:
    """Print what makes a shell complete commands, options, ids of jobs and runs, and zones."""
    text = _script(shell)
    if not install:
        print_text(text)
        return
    place = Path.home() / _PLACES[shell]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    print_lines(f"wrote {place}; it works in the next shell", *([_ZSH] if shell == "zsh" else []))


def completed(program: click.Command) -> int | None:
    """Answer a shell that asks what may follow; None where none asks."""
    from click.shell_completion import shell_complete

    asked = os.environ.get(VARIABLE)
    return None if not asked else shell_complete(program, {}, "tokimori", VARIABLE, asked)


def _script(shell: str) -> str:
    from click import shell_completion

    kinds = {
        "bash": shell_completion.BashComplete,
        "fish": shell_completion.FishComplete,
        "zsh": shell_completion.ZshComplete,
    }
    return f"{kinds[shell](click.Group(), {}, 'tokimori', VARIABLE).source()}\n"
