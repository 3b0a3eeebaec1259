"""`tokimori doctor`: what is wrong here, and what to do about it."""

import os
import sys
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.errors import DONE
from tokimori.cli.output import print_json, print_lines, print_text
from tokimori.cli.remote import server
from tokimori.cli.session import in_bare_service, load
from tokimori.errors import StoreError

if TYPE_CHECKING:
    from tokimori.service.doctor.finding import Finding

SICK = 1
"""The exit code where something does not work; warnings alone are no failure."""
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command(cls=Command)
def doctor() -> int:
    """Check this machine and the store: a line for each check, ok, warn or fail, with what to do.

    Exit code 1 if something fails. Nodes are listened to for 2.5 s. With --server the node's store is checked, and
    nothing of this machine.
    """
    from tokimori.service.doctor.finding import Level, diagnosis

    found = diagnosis([*_of_this_machine(), *_of_the_store()])
    if options().as_json:
        print_json(found)
    else:
        for finding in found.findings:
            _print(finding)
    return SICK if found.level is Level.FAIL else DONE


def _of_this_machine() -> "list[Finding]":
    if server() is not None:
        return []
    from tokimori.clock import SystemClock
    from tokimori.node.checkup import of_this_machine

    return list(of_this_machine(load().settings, SystemClock().now()))


def _of_the_store() -> "list[Finding]":
    from tokimori.service.doctor.finding import failure

    try:
        return list(in_bare_service(lambda service: service.db.doctor()).findings)
    except StoreError as fault:
        return [failure("store", str(fault), "`tokimori config show` says which store that is")]


def _print(finding: "Finding") -> None:
    """Print a finding, on a terminal in colours, unless --plain or NO_COLOR says otherwise."""
    mend = "" if finding.mend is None else f": {finding.mend}"
    level = finding.level.value
    if sys.stdout.isatty() and not (options().plain or os.environ.get("NO_COLOR")):
        click.secho(f"{level:<4}", fg=_COLOURS[level], nl=False)
    else:
        print_text(f"{level:<4}")
    print_lines(f"  {finding.check:<11}  {finding.text}{mend}")
