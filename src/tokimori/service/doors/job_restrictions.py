"""Restrictions on jobs that come over HTTP: their OS users, programs and services."""

from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from msgspec import Struct

from tokimori.errors import Forbidden
from tokimori.model.access_token import Role
from tokimori.model.email import Email, server_of
from tokimori.model.target import Build, Command, Http, Target, Unreadable


class JobRestrictions(Struct, frozen=True, kw_only=True):
    """Settings of a node that allow or forbid. Empty `commands` and `hosts` allow every program and every service.

    `own_user` is the OS user of the node, `roots` are the names of root. `users` are other users as whom jobs may run.
    """

    own_user: str | None = None
    roots: frozenset[str] = frozenset({"root"})
    users: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def check(self, target: Target | Unreadable, role: Role) -> None:
        """Refuse a job whose actions exceed the caller's role. Raises `Forbidden`."""
        match target:
            case Command():
                self._check_user(target.user, role)
                self._check_command(target)
            case Build():
                self._check_user(None, role)
                self._check_builds()
            case Http():
                self._check_host("url", urlsplit(target.url).hostname or "")
            case Email():
                self._check_host("smtp", server_of(target.smtp, target.tls)[0].casefold())
            case _:
                pass

    def _check_user(self, user: str | None, role: Role) -> None:
        if user not in (None, self.own_user, *self.users):
            raise Forbidden(
                f"user: jobs that come over HTTP may not run as {user!r}",
                field="user",
                value=user,
                allowed="none, or one of the setting http.job_users, which is empty by default",
            )
        if role is not Role.ADMIN and (user or self.own_user) in self.roots:
            raise Forbidden(
                f"user: the job would run as {user or self.own_user!r}, and the role {role} makes no job of root",
                field="user",
                value=user,
                allowed="a `user` of the setting http.job_users that is not root; or a token of the role admin",
            )

    def _check_command(self, command: Command) -> None:
        if not self.commands:
            return
        program = command.argv[0] if command.argv else None
        if program not in self.commands:
            raise Forbidden(
                f"command: {program or 'a text for a shell'!r} is not among the programs of the setting"
                " http.job_commands",
                field="command",
                value=program,
                allowed=f"a list that begins with one of {', '.join(self.commands)}",
            )
        if command.env:  # PATH, LD_PRELOAD, BASH_ENV and many more make a program run another one
            raise Forbidden(
                "env: where http.job_commands names the programs, jobs that come over HTTP bring no environment",
                field="env",
                allowed="none",
            )

    def _check_builds(self) -> None:
        """Check a build, which is code that the job's author has written: it is no program of a list."""
        if self.commands:
            raise Forbidden(
                "build: jobs that come over HTTP run the programs of the setting http.job_commands alone, and a build"
                " is none of them",
                field="build",
                allowed=f"a command that begins with one of {', '.join(self.commands)}",
            )

    def _check_host(self, field: str, host: str) -> None:
        if self.hosts and not any(fnmatchcase(host, pattern.casefold()) for pattern in self.hosts):
            raise Forbidden(
                f"{field}: {host!r} is not among the services of the setting http.job_hosts",
                field=field,
                value=host,
                allowed=f"one of {', '.join(self.hosts)}",
            )


UNRESTRICTED = JobRestrictions()
