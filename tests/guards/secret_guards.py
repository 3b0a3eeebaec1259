"""Guards of secrets and scopes: nothing shows a value, and nobody uses or sees what is not for him."""

from tests.guards.guard import NOBODY_IN, SHOWN_NOWHERE, Guard

_REDACTION = "tests/unit/executors/keeper/test_redaction.py"
_SITE = "tests/integration/http/test_secrets.py"
_SECRETS = "tests/unit/service/test_secrets.py"

SECRET_GUARDS = (
    Guard(
        SHOWN_NOWHERE,
        "what may be the beginning of a value waits for the next piece",
        "executors/keeper/redaction.py",
        "min((_open_at(seen, needle) for needle in self._needles), default=len(seen))",
        "len(seen)",
        f"{_REDACTION}::test_no_cut_shows_anything",
    ),
    Guard(
        SHOWN_NOWHERE,
        "what a command writes hides its secrets before it is kept",
        "executors/command.py",
        "            hidden=task.hidden,\n",
        "",
        f"{_SITE}::test_a_job_gets_its_secret_and_nothing_shows_it",
    ),
    Guard(
        SHOWN_NOWHERE,
        "what a service answers hides them, too",
        "executors/http/executor.py",
        "Body(clock, task.hidden)",
        "Body(clock)",
        f"{_SITE}::test_a_request_carries_its_secret",
    ),
    Guard(
        SHOWN_NOWHERE,
        "so do results, errors and reasons",
        "executors/secrets.py",
        "outcome=hidden_in_outcome(report.outcome, hidden)",
        "outcome=report.outcome",
        "tests/unit/executors/test_secrets.py::test_what_is_told_of_it_shows_no_value",
    ),
    Guard(
        SHOWN_NOWHERE,
        "and the log of the node",
        "logs/setup.py",
        "self._shown(record.getMessage())",
        "record.getMessage()",
        "tests/unit/logs/test_setup.py::test_what_is_hidden_is_in_no_line",
    ),
    Guard(
        SHOWN_NOWHERE,
        "a secret is for the jobs that it is bound to",
        "executors/secrets.py",
        "if found.is_for(task.job_id):",
        "if found:",
        "tests/unit/executors/test_secrets.py::test_without_its_secrets_nothing_begins",
    ),
    Guard(
        SHOWN_NOWHERE,
        "a value is sealed with its name and its jobs",
        "model/secret.py",
        "if (content.name, content.jobs) == (secret.name, secret.jobs) else None",
        "",
        f"{_SECRETS}::test_who_writes_to_the_store_moves_no_secret",
    ),
    Guard(
        SHOWN_NOWHERE,
        "a key that others may know is none",
        "config/secrets.py",
        "if found.st_mode & 0o077:",
        "if found.st_mode < 0:",
        "tests/unit/config/test_secrets.py::test_what_others_may_know_is_no_key",
    ),
    Guard(
        SHOWN_NOWHERE,
        "functions get no key",
        "node/functions.py",
        " if name.removesuffix(SUFFIX) not in secret",
        "",
        "tests/unit/node/test_functions.py::test_functions_get_no_key_of_secrets",
    ),
    Guard(
        NOBODY_IN,
        "a run is judged by its own queue, not by the job that has the id now",
        "model/access_token.py",
        "return self.has_id(job_id) and (not self.queues or queue in self.queues)",
        "return self.has_id(job_id)",
        "tests/unit/service/test_incarnations.py::test_what_was_of_another_queue_is_not_told",
    ),
    Guard(
        NOBODY_IN,
        "a task is of the job that runs its builds",
        "service/tasks.py",
        "is_its_own = task.job is not None and task.job.incarnation == task.record.incarnation",
        "is_its_own = True",
        "tests/unit/service/test_incarnations.py::test_a_task_is_of_the_job_that_runs_its_builds",
    ),
    Guard(
        NOBODY_IN,
        "who names a secret has a right of his own to it",
        "service/permitted.py",
        "if strange and not await _is_kept(service, sight, job_id, definition):",
        "if False:",
        "tests/unit/service/test_secrets.py::test_a_token_of_a_queue_names_no_secret_of_others",
    ),
    Guard(
        NOBODY_IN,
        "a build that is whole stays as it is",
        "service/tasks.py",
        "is_known = known is not None and any(each.digest == digest for each in known.builds)",
        "is_known = False",
        "tests/unit/service/test_tasks.py::test_a_build_that_is_whole_stays_as_it_is",
    ),
    Guard(
        NOBODY_IN,
        "a session that logged out is over wherever its cookie is",
        "api/secret.py",
        "await self._sessions.end(*found[2:])",
        "pass",
        "tests/unit/api/test_login.py::test_a_session_that_logged_out_is_over_everywhere",
    ),
    Guard(
        NOBODY_IN,
        "the key of a request is its sender's",
        "service/idempotency.py",
        "name = sha256(msgspec.json.encode([principal, key])).hexdigest()",
        "name = sha256(msgspec.json.encode([key])).hexdigest()",
        "tests/unit/api/test_job_edits.py::test_a_key_of_a_request_is_its_sender_s",
    ),
)
"""What would be taken out, and the test that fails then."""
