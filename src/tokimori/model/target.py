"""Targets: what a run does. A new kind is one struct here, one executor, and one line in `executors_of`."""

from typing import ClassVar

from msgspec import Struct, field

from tokimori.errors import InvalidInput
from tokimori.model.handlers import check_handler_name


class Command(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="command"):
    """A process: either `argv`, or a `shell` text that `shell_path -c` runs.

    `env` is added to the base environment; `user` is an OS user, for which the node must be root; `stdin` is text.
    """

    handler: ClassVar[str] = ""
    """The handler that a node must have to run it: without `|`. Empty: every node can."""
    can_report: ClassVar[bool] = True
    """Whether an attempt can say how it ended."""

    argv: tuple[str, ...] = ()
    shell: str | None = None
    shell_path: str = "/bin/sh"
    env: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None
    user: str | None = None
    stdin: str | None = None

    def check(self) -> None:
        """Raises `InvalidInput` for one that no node could start."""
        if bool(self.argv) == (self.shell is not None):
            message = "target: a command is either argv or shell"
            raise InvalidInput(message, field="target", allowed="one of argv, shell")
        program = self.argv[0] if self.shell is None else self.shell
        if not program.strip():
            message = "target: the command is empty"
            raise InvalidInput(message, field="target", value=program, allowed="a program to run")
        for key in self.env:
            if not key or "=" in key:
                message = f"env: {key!r} is not a variable's name"
                raise InvalidInput(message, field="env", value=key, allowed="no =, not empty")


class Noop(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="noop"):
    """Nothing, at once: for tests and benchmarks."""

    handler: ClassVar[str] = ""
    can_report: ClassVar[bool] = False

    def check(self) -> None:
        """Nothing can be wrong with it."""


class Function(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="function"):
    """A function of an app (`tokimori.App`): `name` is the type under which a handler for it was declared."""

    can_report: ClassVar[bool] = True

    name: str

    @property
    def handler(self) -> str:
        """Only a node that has a handler of this name runs it."""
        return self.name

    def check(self) -> None:
        """Raises `InvalidInput` for a name that no handler can have."""
        check_handler_name(self.name, field="function")


Target = Command | Function | Noop
"""Every kind that this program runs."""


class Unreadable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="unreadable"):
    """In place of a target where the stored definition is one that this program can't read.

    A newer program may have written it, or its text is broken. `text` is what is stored, and stays as it is; `why` says
    what is wrong with it. The job is shown with that and not fired; a run of it that is claimed all the same is handed
    back unpenalised.
    """

    handler: ClassVar[str] = ""
    can_report: ClassVar[bool] = False

    text: str
    why: str

    def check(self) -> None:
        """Raises `InvalidInput`."""
        raise InvalidInput(f"target: {self.why}", field="target", allowed="a definition that this version can read")


def kind_of(target: Target | Unreadable) -> str:
    """What its kind is called, in stored definitions and for people."""
    return str(target.__struct_config__.tag)
