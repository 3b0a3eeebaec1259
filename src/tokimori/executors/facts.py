"""Facts of an attempt: for templates, and as environment, account and folder of a command, never those of the node."""

import json
import os
import pwd
from collections.abc import Collection, Mapping

from msgspec import Struct

from tokimori.clock import format_moment
from tokimori.errors import Refused
from tokimori.model.cause import VARIABLE
from tokimori.model.parents import facts_of_parents
from tokimori.model.target import Command
from tokimori.model.templates import SECRETS, check_filled, names_parts, parts_of
from tokimori.ports.executor import AttemptTask


def facts_of(task: AttemptTask, texts: Collection[str] = ()) -> dict[str, str]:
    """Return the facts that templates may name (`tokimori.model.templates`), for these texts.

    Raises `InvalidInput` if the texts would become too large with it.
    """
    known = {
        "job_id": task.job_id,
        "run_id": task.run_id,
        "attempt": str(task.attempt),
        "token": str(task.token),
        "nominal_time": format_moment(task.nominal),
        "due_time": format_moment(task.due),
        "parent_run_id": task.parent_id,
        "payload": task.payload,
        "payload_json": json.dumps(task.payload),
    }
    secrets = {SECRETS + name: value for name, value in task.secrets.items()}
    parts = parts_of(task.payload) if names_parts(texts) else {}
    parents = facts_of_parents(task.parent_runs, joined=task.joined) if task.parent_runs else {}
    facts = {name: fact for name, fact in known.items() if fact is not None} | secrets | dict(parts) | parents
    check_filled(texts, facts)
    return facts


DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEFAULT_LANG = "C.UTF-8"


class Account(Struct, frozen=True):
    """An OS user."""

    name: str
    uid: int
    gid: int
    home: str

    def credentials(self) -> tuple[int, int, list[int]]:
        """Return uid, gid and all groups of this user, as initgroups(3) gives them."""
        return self.uid, self.gid, os.getgrouplist(self.name, self.gid)


def own_account() -> Account:
    """Return the user that the node runs as. One without an entry (as in some containers) is called by its number."""
    uid = os.geteuid()
    try:
        return _account(pwd.getpwuid(uid))
    except KeyError:
        return Account(str(uid), uid, os.getegid(), "/")


def account_for(user: str | None, own: Account) -> Account:
    """Return the user that a command runs as. Raises `Refused`."""
    if user is None or user == own.name:
        return own
    try:
        account = _account(pwd.getpwnam(user))
    except (KeyError, ValueError):
        raise Refused(f"user {user!r}: this machine has no such user", field="user", value=user) from None
    if own.uid not in {0, account.uid}:
        raise Refused(f"user {user!r}: only a node that runs as root can change users", field="user", value=user)
    return account


def environment_of(
    task: AttemptTask, command: Command, account: Account, node: Mapping[str, str], exchange: Mapping[str, str]
) -> dict[str, str]:
    """Return the whole environment of a command; of the node's own it has only PATH and LANG.

    `command.env` may replace the first six, never what says which run this is. `exchange` are the variables of its
    files and its payload (`tokimori.executors.exchange`).
    """
    return {
        "PATH": node.get("PATH") or DEFAULT_PATH,
        "HOME": account.home,
        "USER": account.name,
        "SHELL": command.shell_path,
        "LANG": node.get("LANG") or DEFAULT_LANG,
        "TZ": task.time_zone,
        **command.env,
        "TOKIMORI_JOB_ID": task.job_id,
        "TOKIMORI_RUN_ID": task.run_id,
        "TOKIMORI_ATTEMPT": str(task.attempt),
        "TOKIMORI_TOKEN": str(task.token),
        "TOKIMORI_NOMINAL_TIME": format_moment(task.nominal),
        "TOKIMORI_DUE_TIME": format_moment(task.due),
        **({} if not task.server else {"TOKIMORI_SERVER": task.server}),
        **({} if not task.permits else {"TOKIMORI_PERMITS": task.permits}),
        **({} if task.parent_id is None else {"TOKIMORI_PARENT_RUN_ID": task.parent_id}),
        **({} if task.traceparent is None else {VARIABLE: task.traceparent}),
        **exchange,
    }


def arguments_of(command: Command) -> list[str]:
    """Return the arguments to execute."""
    return list(command.argv) if command.shell is None else [command.shell_path, "-c", command.shell]


def folder_of(command: Command, environment: Mapping[str, str], *, is_own: bool) -> str:
    """Return the folder of a command: its `cwd`, else its HOME as with cron, else (HOME can't be entered) the root.

    Whether another user can enter his HOME shows where he does: looking may lead anywhere, and take any time.
    """
    if command.cwd is not None:
        return command.cwd
    home = environment["HOME"]
    return home if not is_own or os.access(home, os.X_OK) else "/"


def _account(entry: pwd.struct_passwd) -> Account:
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir)
