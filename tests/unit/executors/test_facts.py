"""What a command gets."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.unit.examples import a_task, seconds
from tokimori.errors import Refused
from tokimori.executors.facts import (
    DEFAULT_LANG,
    DEFAULT_PATH,
    Account,
    account_for,
    arguments_of,
    environment_of,
    folder_of,
    own_account,
)
from tokimori.model.ids import RunId, Token
from tokimori.model.target import Command

ANN = Account("ann", 1000, 1000, "/home/ann")
ROOT = Account("root", 0, 0, "/root")
TASK = a_task(Command(argv=("true",)), token=Token(3), attempt=2, due=seconds(5), time_zone="Europe/Paris")


def test_the_environment_holds_what_is_promised() -> None:
    """A command gets the base variables and which run it is, and of the node's environment only PATH and LANG."""
    node = {"PATH": "/opt/bin", "LANG": "de_DE.UTF-8", "TOKIMORI_STORE": "postgresql://secret", "HOME": "/node"}
    assert environment_of(TASK, Command(argv=("true",), shell_path="/bin/bash"), ANN, node, {}) == {
        "PATH": "/opt/bin",
        "HOME": "/home/ann",
        "USER": "ann",
        "SHELL": "/bin/bash",
        "LANG": "de_DE.UTF-8",
        "TZ": "Europe/Paris",
        "TOKIMORI_JOB_ID": "job",
        "TOKIMORI_RUN_ID": "run",
        "TOKIMORI_ATTEMPT": "2",
        "TOKIMORI_TOKEN": "3",
        "TOKIMORI_NOMINAL_TIME": "2030-01-01T00:00:00Z",
        "TOKIMORI_DUE_TIME": "2030-01-01T00:00:05Z",
    }


def test_a_command_may_set_its_own_but_not_which_run_it_is() -> None:
    """A command's own variables replace the base ones, never those that name its run."""
    own = {"PATH": "/mine", "TZ": "Asia/Tokyo", "TOKIMORI_RUN_ID": "another", "MORE": "1"}
    found = environment_of(TASK, Command(argv=("true",), env=own), ANN, {}, {})
    assert (found["PATH"], found["TZ"], found["MORE"]) == ("/mine", "Asia/Tokyo", "1")
    assert found["TOKIMORI_RUN_ID"] == "run"


def test_a_run_after_another_knows_it() -> None:
    """A child, and a run that another run's code asked for, find the id of that run; others find none."""
    found = environment_of(replace(TASK, parent_id=RunId("parent")), Command(argv=("true",)), ANN, {}, {})
    assert found["TOKIMORI_PARENT_RUN_ID"] == "parent"
    assert "TOKIMORI_PARENT_RUN_ID" not in environment_of(TASK, Command(argv=("true",)), ANN, {}, {})


def test_nothing_hides_the_files_of_an_attempt() -> None:
    """A command's own variables don't replace those that say where its outcome goes."""
    own = {"TOKIMORI_OUTCOME_FILE": "/mine"}
    found = environment_of(TASK, Command(argv=("true",), env=own), ANN, {}, {"TOKIMORI_OUTCOME_FILE": "/theirs"})
    assert found["TOKIMORI_OUTCOME_FILE"] == "/theirs"


def test_a_node_without_environment_still_gives_path_and_lang() -> None:
    """Where the node has no PATH or LANG, a command gets the usual ones."""
    found = environment_of(replace(TASK, attempt=1), Command(argv=("true",)), ANN, {"PATH": ""}, {})
    assert (found["PATH"], found["LANG"]) == (DEFAULT_PATH, DEFAULT_LANG)


def test_the_own_account_needs_no_root() -> None:
    """A command without a user, or with the node's own, runs as the node."""
    assert account_for(None, ANN) is ANN
    assert account_for("ann", ANN) is ANN


def test_only_root_may_change_users() -> None:
    """A node that is not root refuses another user, and says what would help."""
    with pytest.raises(Refused, match="user 'root': only a node that runs as root can change users") as caught:
        account_for("root", ANN)
    assert (caught.value.field, caught.value.value) == ("user", "root")


@pytest.mark.parametrize("user", ["no-such-user", "a\0b"])
@pytest.mark.parametrize("own", [ANN, ROOT])
def test_an_unknown_user_is_refused(user: str, own: Account) -> None:
    """A user that this machine does not know is refused by name, whoever the node is."""
    with pytest.raises(Refused, match="this machine has no such user"):
        account_for(user, own)


def test_root_becomes_anybody() -> None:
    """A node that is root finds another user's ids, HOME and groups."""
    account = account_for("nobody", ROOT)
    uid, gid, groups = account.credentials()
    assert (account.name, uid, gid) == ("nobody", account.uid, account.gid)
    assert uid != 0
    assert gid in groups


def test_the_own_account_is_whom_the_process_runs_as() -> None:
    """The node's own account is that of the process."""
    assert (own_account().uid, own_account().gid) == (os.geteuid(), os.getegid())


def test_arguments() -> None:
    """An argv is executed as it stands, a shell text by its shell."""
    assert arguments_of(Command(argv=("a", "b c"))) == ["a", "b c"]
    a_pipe = Command(shell="a | b", shell_path="/bin/dash")  # noqa: S604 - no shell is started here
    assert arguments_of(a_pipe) == ["/bin/dash", "-c", "a | b"]


def test_folder(tmp_path: Path) -> None:
    """A command starts in its cwd even if that does not exist, else in a HOME that does, else in the root."""
    assert folder_of(Command(argv=("true",), cwd="/no/such"), {"HOME": "/"}, is_own=True) == "/no/such"
    assert folder_of(Command(argv=("true",)), {"HOME": str(tmp_path)}, is_own=True) == str(tmp_path)
    assert folder_of(Command(argv=("true",)), {"HOME": "/no/such"}, is_own=True) == "/"


def test_the_home_of_another_user_is_not_looked_at() -> None:
    """Where another user's HOME leads, the node does not look: his own process does."""
    assert folder_of(Command(argv=("true",)), {"HOME": "/no/such"}, is_own=False) == "/no/such"


def test_a_command_goes_on_in_the_trace_of_its_run() -> None:
    """By the variable of OpenTelemetry's conventions, whatever its job says; a run of no trace leaves it alone."""
    said = Command(argv=("true",), env={"TRACEPARENT": "mine"})
    place = f"00-{'a' * 32}-{'b' * 16}-01"
    assert environment_of(replace(TASK, traceparent=place), said, ANN, {}, {})["TRACEPARENT"] == place
    assert environment_of(TASK, said, ANN, {}, {})["TRACEPARENT"] == "mine"
    assert "TRACEPARENT" not in environment_of(TASK, Command(argv=("true",)), ANN, {}, {})
