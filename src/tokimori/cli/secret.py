"""`tokimori secret …`"""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from tokimori.cli.command import Command, Group
from tokimori.cli.output import print_answer
from tokimori.cli.session import Absent, in_service, load, with_zone
from tokimori.cli.table import At, listing, print_list
from tokimori.errors import InvalidInput
from tokimori.spelling import amount

secret = Group("secret", help="Secrets: values that jobs name as {{ secret.NAME }}, and that nobody is shown again.")

_COLUMNS = ("NAME", "JOBS", "SET", "BY")


@secret.command("set", cls=Command)
@click.argument("name")
@click.option("--jobs", multiple=True, metavar="PREFIX", help="Only jobs whose ids begin so; may be repeated.")
@click.option("--all-jobs", is_flag=True, help="All jobs, where it was for some only.")
def set_secret(name: str, jobs: Sequence[str], all_jobs: bool) -> None:
    """Store a secret, or replace its value. Runs that start from now on get it.

    The value is read from standard input, or asked for on a terminal: arguments are seen by everybody. The newline
    behind a single line is not a part of it. Without --jobs a secret that is there stays for the jobs that it is for.
    """
    from tokimori.service.views.access import Secret as SecretView

    if jobs and all_jobs:
        raise InvalidInput("jobs: --jobs and --all-jobs contradict each other", field="jobs", allowed="one of them")
    prefixes = jobs if jobs or all_jobs else None
    value = _value(name)
    found = in_service(lambda service: service.secrets.set(name, value, jobs=prefixes), Absent.MADE)
    print_answer(SecretView.made(found), f"set secret {name}")


@secret.command("list")
@listing(_COLUMNS)
def list_secrets() -> None:
    """List the secrets: their names, for which jobs, when and by whom they were set."""
    from tokimori.service.views.access import Secret as SecretView

    zone, found = with_zone(lambda service: service.secrets.list())
    listed = [
        (each, [(each.name, " ".join(f"{prefix}*" for prefix in each.jobs), At(each.at, zone), each.by)])
        for each in found
    ]
    print_list(_COLUMNS, listed, SecretView.made)


@secret.command(cls=Command)
@click.argument("name")
def delete(name: str) -> None:
    """Delete a secret: runs of jobs that name it fail from now on."""
    in_service(lambda service: service.secrets.delete(name))
    print_answer({"name": name, "deleted": True}, f"deleted secret {name}")


@secret.command(cls=Command)
def rotate() -> None:
    """Encrypt all secrets anew with the first key. Then the other keys may be taken out of the file."""
    count = in_service(lambda service: service.secrets.rotate())
    print_answer({"rotated": count}, f"encrypted {amount(count, 'secret')} with the first key")


@secret.command(cls=Command)
@click.argument("file", required=False)
def key(file: str | None) -> None:
    """Put a new key before those in FILE, by default that of the setting secrets.key_file.

    Each node of the store needs the file. Copy it to all of them before `tokimori secret rotate`, and keep a copy with
    the backups of the store: without a key no secret can be read.
    """
    from tokimori.config.secrets import add_key

    path = Path.cwd() / file if file is not None else load().settings.secrets.key_file
    if path is None:
        message = "file: the setting secrets.key_file names none"
        raise InvalidInput(message, field="file", allowed="the path of a file, which need not be there")
    count = add_key(path)
    print_answer(
        {"file": str(path), "keys": count},
        f"{path} has {count} keys" if count > 1 else f"{path} has a key: name it in secrets.key_file",
    )


def _value(name: str) -> str:
    """Return the value, from a terminal or standard input. Raises `InvalidInput`."""
    if sys.stdin.isatty():
        return str(click.prompt(f"{name}", hide_input=True, confirmation_prompt=True, err=True))
    try:
        text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise InvalidInput("value: it is no text in UTF-8", field="value", allowed="a text") from None
    return text.removesuffix("\n") if text.count("\n") == 1 else text
