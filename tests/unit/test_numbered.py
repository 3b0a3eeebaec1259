"""What was asked for by number, in order: each has tests that prove it, as processes on SQLite and PostgreSQL."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
APPS, CLI, HTTP = "integration/apps", "integration/cli", "integration/http"
ISSUE_13: Mapping[int, Sequence[str]] = {
    1: (
        f"{APPS}/test_drained.py",
        f"{APPS}/test_never_begun_again.py",
        f"{APPS}/test_running.py::test_a_thread_that_heeds_nothing_takes_no_place",
        f"{HTTP}/test_targets.py::test_what_must_not_happen_twice_is_asked_for_once",
        "unit/service/claims/test_claims.py::test_a_claim_counts_as_begun_where_none_may_be_lost",
        "cluster/test_troubled_soak.py",
    ),
    2: (f"{APPS}/test_dead_keepers.py", "integration/executors/test_deaths.py"),
    3: (
        f"{CLI}/test_short_machine.py",
        "integration/executors/test_http.py::test_a_request_for_which_there_is_no_socket_goes_back",
    ),
    4: (f"{APPS}/test_forks.py",),
    5: (
        f"{APPS}/test_silent_processes.py",
        f"{APPS}/test_running.py::test_a_coroutine_that_blocks_its_program_is_named",
    ),
    6: (
        "cluster/test_wrong_clock.py",
        "cluster/test_troubled_soak.py",
        "contract/stores/test_rewind.py",
        "unit/service/jobs/test_ledger.py::test_a_moment_with_two_runs_is_a_fault",
        "unit/api/test_login.py::test_sessions_of_a_clock_that_was_ahead_keep_nobody_out",
    ),
    7: (
        "integration/locks/conftest.py::programs",
        "integration/locks/test_exclusion.py::test_a_frozen_perfectsched_worker_is_followed_within_ten_seconds",
    ),
    8: (
        f"{CLI}/test_store_away.py",
        "unit/node/test_node_faults.py::test_ends_do_not_hurry_a_node_whose_store_is_away",
    ),
    9: (f"{HTTP}/test_scopes.py::test_whoever_has_the_id_now",),
    10: (f"{CLI}/test_apply_races.py", "unit/service/sets/test_turns.py"),
    11: (f"{HTTP}/test_scopes.py::test_sets_within_a_scope", "unit/service/test_access_sets.py"),
    12: (f"{HTTP}/test_scopes.py::test_secrets_builds_and_keys",),
    13: (f"{HTTP}/test_scopes.py::test_secrets_builds_and_keys", f"{HTTP}/test_secrets.py"),
    14: (
        f"{HTTP}/test_targets.py::test_private_addresses_are_for_nodes_that_are_told_so",
        "unit/executors/http/test_addresses.py",
        "integration/executors/test_http.py::test_a_name_that_changes_its_address_leads_nowhere",
        "integration/executors/test_email.py::test_a_private_server_is_for_nodes_that_are_told_so",
    ),
    15: (
        f"{HTTP}/test_scopes.py::test_secrets_builds_and_keys",
        f"{HTTP}/test_scopes.py::test_a_session_that_logged_out_is_dead_at_every_node",
        f"{CLI}/test_backup.py::test_tokens_that_come_back_are_told",
        f"{CLI}/test_backup.py::test_a_schema_that_is_not_ours_is_refused",
        f"{CLI}/test_backup.py::test_a_row_that_cannot_be_read_is_refused",
    ),
    16: (
        "integration/client/test_half_copied.py",
        f"{CLI}/test_backup.py::test_every_form_of_a_url_names_the_same_file",
        f"{HTTP}/test_scopes.py::test_every_promised_parameter_is_known",
        "unit/api/test_docs.py::test_every_parameter_is_taken",
        "unit/api/test_docs.py::test_no_parameter_is_ignored",
        f"{CLI}/test_many_jobs.py",
    ),
}
AS_PROCESSES = ("cluster/", "integration/")


@pytest.mark.parametrize("number", ISSUE_13)
def test_each_line_has_its_tests(number: int) -> None:
    """They are where this table says, and one file of them at least runs on both stores."""
    stores = set[str]()
    for each in ISSUE_13[number]:
        file, _, name = each.partition("::")
        source = (TESTS / file).read_text()
        assert re.search(rf"^(async )?def {name or 'test_'}", source, re.MULTILINE), each
        if file.startswith(AS_PROCESSES):
            stores |= {store for store in ("sqlite", "postgres") if store in source}
    assert stores == {"sqlite", "postgres"}
