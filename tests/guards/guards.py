"""Which promise is kept by which guard, and which test fails without it: the table of `docs/guards.md`.

What every store has stands in `stores.py`, once for each line that keeps it. Here is what stands elsewhere, and what
only some stores have: locks, for most.
"""

from collections.abc import Iterator
from pathlib import Path

from tests.guards.door_guards import DOOR_GUARDS
from tests.guards.guard import (
    CLOCKS,
    DEATH,
    EDITORS,
    GATE,
    LEDGER,
    LIMIT,
    LIVE,
    LOST_REPLY,
    NEIGHBOURS,
    NOBODY,
    ONCE,
    PROCESSES,
    REFUSED,
    STALE,
    STORE_NAMES,
    Guard,
    contract,
)
from tests.guards.others_guards import OTHERS_GUARDS
from tests.guards.secret_guards import SECRET_GUARDS
from tests.guards.stores import STORE_GUARDS
from tests.guards.survivors import SURVIVORS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/guards.md"
SQL = "stores/postgres/functions/*.sql"
MARIADB = "tests/integration/stores/test_mariadb_semaphores.py"

GUARDS: tuple[Guard, ...] = (
    Guard(
        ONCE,
        "a join that is complete stays so: who ends later for the same root looks at no run",
        SQL,
        "SET parents = '{*}' WHERE",
        "SET parents = '{}' WHERE",
        "tests/integration/stores/test_postgres_locks.py::test_a_join_that_is_complete_again_waits_for_no_run",
    ),
    Guard(
        LEDGER,
        "runs and skips are written together with the cursor",
        SQL,
        "IF _skips IS NOT NULL THEN",
        "IF false THEN",
        contract("test_planning.py::test_consecutive_skips_are_one_row"),
    ),
    Guard(
        LOST_REPLY,
        "runs that the store gives a node and that it does not know are handed back",
        "node/worker.py",
        "await hand_back(self._source, unknown, member.id, member.now, begun)",
        "()",
        "tests/unit/node/test_node_faults.py::test_a_lost_reply_to_a_claim_strands_nothing",
    ),
    Guard(
        REFUSED,
        "a batch that the store refuses is halved until the change is found that is at fault",
        "engine/unsettled.py",
        "if len(batch) == 1:",
        "if True:",
        "tests/unit/engine/test_unsettled.py::test_a_refused_change_hinders_no_other",
    ),
    Guard(
        REFUSED,
        "less of a change is sent only behind itself: a store that was ill for a while fails nothing",
        "engine/unsettled.py",
        "refused.form, refused.forms = refused.change, iter(())",
        "",
        "tests/unit/engine/test_unsettled.py::test_what_the_store_takes_in_no_form_is_tried_again_as_it_is",
    ),
    Guard(
        REFUSED,
        "what is sent alone takes turns with all the others",
        "engine/unsettled.py",
        " if self._alone_next or not self._changes else None",
        "",
        "tests/unit/engine/test_unsettled.py::test_refused_changes_take_turns_with_the_others",
    ),
    Guard(
        REFUSED,
        "a claim that the store refuses goes past the run at fault",
        "engine/refusals.py",
        "        ill.skip += 1",
        "        pass",
        contract("test_refused_claims.py::test_a_refused_claim_hinders_no_other"),
    ),
    Guard(
        REFUSED,
        "a promotion that the store refuses goes past the run at fault",
        "engine/fire.py",
        "self._store.promote(now, asked.limit, asked.skip)",
        "self._store.promote(now, limit)",
        contract("test_refused_claims.py::test_a_refused_promotion_hinders_no_other"),
    ),
    Guard(
        REFUSED,
        "where another run has come before a refused one its place is looked for anew",
        "engine/refusals.py",
        "        if asked.skip == ill.skip and asked.skip and not ill.climbs:",
        "        if False:",
        "tests/unit/engine/test_refusals.py::test_a_run_that_comes_before_the_refused_one_is_taken",
    ),
    Guard(
        REFUSED,
        "where a refused run has gone, whoever stands in its place is found",
        "engine/refusals.py",
        "ill.looked = place + 1",
        "ill.looked = ill.skip",
        "tests/unit/engine/test_refusals.py::test_a_run_in_the_place_of_a_refused_one_that_has_gone_is_taken",
    ),
    Guard(
        REFUSED,
        "a beat that the store refuses because of a process is sent without processes",
        "node/membership.py",
        "if not started or not refuses_for_good(fault):",
        "if True:",
        "tests/unit/node/test_refusals.py::test_a_process_that_the_store_does_not_note_costs_no_lease",
    ),
    Guard(
        LIVE,
        "a beat that failed or came late starts every window of its observer again",
        "model/lease.py",
        " and known.beat == beat and unbroken",
        " and known.beat == beat",
        "tests/unit/model/test_watch.py::test_a_break_starts_every_window_again",
    ),
    Guard(
        LIVE,
        "a tick that was answered late is a break",
        "node/membership.py",
        "self._unbroken = at - sent <= LATE_TICK",
        "self._unbroken = True",
        "tests/unit/node/test_node_faults.py::test_a_slow_reply_condemns_nobody",
    ),
    Guard(
        LIVE,
        "a tick that began late is a break",
        "node/membership.py",
        "self._unbroken and on_time, False",
        "self._unbroken, False",
        "tests/unit/node/test_node_faults.py::test_an_observer_that_froze_condemns_nobody",
    ),
    Guard(
        LIVE,
        "a program whose own beat was late or failed condemns nobody",
        "locks/membership.py",
        "unbroken=unbroken and self._unbroken",
        "unbroken=True",
        "tests/unit/locks/test_session.py::test_an_observer_that_was_late_condemns_nobody",
    ),
    Guard(
        LIVE,
        "a node without a lease starts nothing",
        "node/worker.py",
        "self._stopping.working and self._membership.has_lease",
        "self._stopping.working",
        "tests/unit/node/test_node_faults.py::test_claimed_runs_do_not_start_after_the_lease",
    ),
    Guard(
        LIVE,
        "a lease counts from when its beat was sent, not answered",
        "node/membership.py",
        "self._lease = Lease(sent)",
        "self._lease = Lease(at)",
        "tests/unit/node/test_node_faults.py::test_a_lease_counts_from_when_its_beat_was_sent",
    ),
    Guard(
        DEATH,
        "a settle and its node's burial exclude each other",
        SQL,
        "WHERE id = _by AND state = 'alive' FOR KEY SHARE",
        "WHERE id = _by AND state = 'alive'",
        "tests/integration/stores/test_locks.py::test_a_settle_waits_for_its_nodes_burial",
    ),
    Guard(
        DEATH,
        "a claim and its node's burial exclude each other",
        SQL,
        "WHERE id = _node AND state = 'alive' FOR KEY SHARE SKIP LOCKED",
        "WHERE id = _node AND state = 'alive'",
        "tests/integration/stores/test_locks.py::test_a_burial_waits_for_claims_under_way",
    ),
    Guard(
        PROCESSES,
        "a node that was declared dead ends what it runs",
        "node/node.py",
        "self._worker.end_all(StopReason.DISOWN)",
        "pass",
        "tests/unit/node/test_node_faults.py::test_a_node_that_was_declared_dead_ends_its_processes",
    ),
    Guard(
        PROCESSES,
        "the keeper ends everything when its engine is gone",
        "executors/keeper/keeper.py",
        "    def _engine_gone(self) -> None:\n",
        "    def _engine_gone(self) -> None:\n        return\n",
        "tests/integration/executors/test_deaths.py::test_a_killed_engine_leaves_no_process",
    ),
    Guard(
        LIMIT,
        "a node ends what its dead keeper has left, whatever that carries, before it tells of any end",
        "executors/keeper_process.py",
        "end_session(self._process.pid)",
        "pass",
        "tests/integration/executors/test_deaths.py::test_a_killed_keeper_leaves_no_process",
    ),
    Guard(
        PROCESSES,
        "what is older than a dead keeper's last word, in its session, was spawned by it",
        "executors/keeper/notes.py",
        "seen.began <= lived or ",
        "",
        "tests/integration/executors/test_deaths.py::test_engine_and_keeper_killed_together",
    ),
    Guard(
        NEIGHBOURS,
        "a machine that is short of something fails no run that never began",
        "executors/keeper/child.py",
        "if is_short(fault):",
        "if False:",
        "tests/unit/executors/keeper/test_child.py::test_a_machine_that_is_short_of_something",
    ),
    Guard(
        NEIGHBOURS,
        "a worker process that does not answer is given no run",
        "executors/functions/process.py",
        "and (silence is None or silence.seconds < SILENT)",
        "",
        "tests/unit/executors/functions/test_pulse.py::test_a_process_that_does_not_answer",
    ),
    Guard(
        PROCESSES,
        "the keeper ends what must not outlive its node's lease",
        "executors/keeper/keeper.py",
        "    def _lease_ran_out(self, now: float) -> None:\n",
        "    def _lease_ran_out(self, now: float) -> None:\n        self._lease_alarm = inf\n        return\n",
        "tests/integration/executors/test_deaths.py::test_a_frozen_engine_keeps_only_what_may_outlive_its_lease",
    ),
    Guard(
        PROCESSES,
        "the keeper that takes a dead one's place is told the lease",
        "executors/keeper_post.py",
        "orders if self._lease is None else [self._lease, *orders]",
        "orders",
        "tests/integration/executors/test_suspects.py::test_the_lease_is_told_to_the_next_keeper",
    ),
    Guard(
        NEIGHBOURS,
        "what ran at three deaths of keepers has one of its own",
        "model/suspicion.py",
        "COMMON if record is None else record.cell",
        "COMMON",
        "tests/integration/executors/test_suspects.py::test_neighbours_of_a_command_that_kills_its_keeper_live_on",
    ),
    Guard(
        NEIGHBOURS,
        "a death that several jobs share takes nothing from their budgets",
        "model/suspicion.py",
        "counts = dict.fromkeys(present, 0)",
        "counts = dict.fromkeys(present, 1)",
        "tests/unit/model/test_suspicion.py::test_a_death_that_several_share_counts_against_none",
    ),
    Guard(
        NEIGHBOURS,
        "keepers that die in a row are replaced after a pause",
        "executors/command.py",
        "pause_after(self._deaths_in_a_row)",
        "0.0",
        "tests/integration/executors/test_suspects.py::test_keepers_that_die_in_a_row_are_replaced_after_a_pause",
    ),
    Guard(
        LIMIT,
        "a node that tells its store what it can run now keeps the units of what has not begun",
        "node/apart.py",
        "if node.id != self._id:",
        "if True:",
        "tests/unit/node/test_apart.py::test_a_node_that_says_its_labels_anew_keeps_its_units",
    ),
    Guard(
        LIMIT,
        "who counts the places of a job is alone",
        SQL,
        "FOR NO KEY UPDATE OF j SKIP LOCKED",
        "",
        "tests/integration/stores/test_locks.py::test_a_claim_goes_around_a_full_jobs_settle",
    ),
    Guard(
        LIMIT,
        "runs of many jobs are taken uncounted only where none of their jobs runs",
        SQL,
        "cardinality(_ids) = cardinality(_jobs) AND NOT EXISTS",
        "cardinality(_ids) = cardinality(_jobs) OR NOT EXISTS",
        contract("test_limits.py::test_of_many_jobs_each_keeps_its_own_limit"),
    ),
    Guard(
        LIMIT,
        "runs of many jobs are taken uncounted only where there is one of each",
        SQL,
        "cardinality(_ids) = cardinality(_jobs) AND NOT EXISTS",
        "NOT EXISTS",
        contract("test_limits.py::test_two_of_one_job_among_others_are_one_too_many"),
    ),
    Guard(
        LIMIT,
        "on MariaDB, who counts the units of a semaphore for a claim is alone",
        "stores/mysql/lines.py",
        "WHERE name IN (%s) ORDER BY name FOR UPDATE SKIP LOCKED",
        "WHERE name IN (%s) ORDER BY name",
        f"{MARIADB}::test_a_claim_goes_around_a_semaphore_that_is_being_taken",
    ),
    Guard(
        LIMIT,
        "on MariaDB, who gives units back serves the line alone",
        "stores/mysql/lines.py",
        "ORDER BY s.name FOR UPDATE",
        "ORDER BY s.name",
        f"{MARIADB}::test_two_that_end_at_once_wake_two",
    ),
    Guard(
        LIMIT,
        "on MariaDB, who counts the runs of a key is alone",
        "stores/mysql/admission.py",
        "if limit or run.concurrency_key is not None",
        "if limit",
        f"{MARIADB}::test_a_claim_goes_around_one_of_the_same_key",
    ),
    Guard(
        LIMIT,
        "on MariaDB, units are given back only with the semaphores locked before the runs",
        "stores/mysql/working.py",
        "        if wanted == besides and not locked.places.keys() - locked.gates:\n",
        "        if not locked.places.keys() - locked.gates:\n",
        f"{MARIADB}::test_a_unit_that_is_given_back_finds_who_joins_meanwhile",
    ),
    Guard(
        DEATH,
        "on MariaDB, a program is granted nothing while its node is declared dead",
        "stores/mysql/semaphores.py",
        "AND state = 'alive' {SHARED}\", wish.node",
        "AND state = 'alive'\", wish.node",
        f"{MARIADB}::test_a_program_waits_for_its_nodes_burial",
    ),
    Guard(
        LIMIT,
        "a program whose lease ran out has lost what it held, though its next beat is answered",
        "locks/membership.py",
        "        self._check_lease()  # what ran out meanwhile stays lost\n",
        "",
        "tests/unit/locks/test_session.py::test_who_was_frozen_beyond_its_lease_has_lost",
    ),
    Guard(
        LIMIT,
        "a grant that comes when the lease has run out counts only after a beat that is answered",
        "locks/session.py",
        "isinstance(answer, Grant) and self._membership.holds_lease()",
        "isinstance(answer, Grant)",
        "tests/unit/locks/test_session.py::test_a_grant_that_comes_late_waits_for_a_beat",
    ),
    Guard(
        LIMIT,
        "a command under a lock ends with the lease of its program, frozen or not",
        "executors/foreground.py",
        "lease_bound=True",
        "lease_bound=False",
        "tests/integration/locks/test_exclusion.py::test_a_frozen_holder_leaves_no_command",
    ),
    Guard(
        LIMIT,
        "a wish that was given up is given back until it can't come late any more: no unit stays with nobody",
        "locks/session.py",
        "self._release_later(wish.id, wish.node, LATE_REPLY)",
        "pass",
        "tests/unit/locks/test_session.py::test_a_wish_that_comes_late_is_given_back_too",
    ),
    Guard(
        LIMIT,
        "who counts the units of a semaphore is alone",
        SQL,
        "WHERE name = ANY (_named) FOR NO KEY UPDATE SKIP LOCKED",
        "WHERE name = ANY (_named)",
        "tests/integration/stores/test_locks.py::test_a_claim_goes_around_semaphores_that_somebody_counts",
    ),
    Guard(
        LIMIT,
        "a program's count waits for that of a claim",
        SQL,
        'SELECT "limit" INTO told FROM tokimori_semaphores WHERE name = _name FOR NO KEY UPDATE;',
        'SELECT "limit" INTO told FROM tokimori_semaphores WHERE name = _name;',
        "tests/integration/stores/test_locks.py::test_a_program_waits_for_the_count_of_a_claim",
    ),
    Guard(
        LIMIT,
        "what one claim gave is counted before it gives more",
        "stores/rules/admission.py",
        "self._free[name] -= weight",
        "pass",
        contract("test_struggles.py::test_four_processes_share_one_sqlite_file"),
    ),
    Guard(
        LIMIT,
        "runs of one key are counted by who is alone with their job",
        SQL,
        " AND (_keyed IS NULL OR incarnation <> ALL (_keyed))",
        "",
        "tests/integration/stores/test_postgres_locks.py::test_a_claim_goes_around_a_key_that_somebody_counts",
    ),
    Guard(
        LIMIT,
        "a freed unit serves its line in the transaction that frees it",
        SQL,
        "    PERFORM tokimori_free(ARRAY[_name]);\n    RETURN true;",
        "    RETURN true;",
        contract("test_semaphores.py::test_programs_and_runs_are_served_by_rank"),
    ),
    Guard(
        DEATH,
        "a grant and its node's burial exclude each other",
        SQL,
        "WHERE id = _node AND state = 'alive' FOR KEY SHARE;",
        "WHERE id = _node AND state = 'alive';",
        "tests/integration/stores/test_locks.py::test_a_burial_waits_for_what_its_programs_ask",
    ),
    Guard(
        NOBODY,
        "a claim does not wait for who makes a semaphore",
        SQL,
        "IF pg_try_advisory_xact_lock(hashtext('tokimori_semaphores')) THEN",
        "IF true THEN",
        "tests/integration/stores/test_postgres_locks.py::test_a_claim_does_not_wait_for_who_makes_a_semaphore",
    ),
    Guard(
        NOBODY,
        "semaphores are locked before the runs in their lines",
        SQL,
        "    PERFORM tokimori_lock_semaphores(tokimori_lined(",
        "    PERFORM (tokimori_lined(",
        "tests/integration/stores/test_postgres_locks.py::test_who_changes_a_line_locks_its_semaphore_first",
    ),
    Guard(
        LIMIT,
        "who counts the runs that wait holds the gate alone, and adds none more than may",
        SQL,
        "IF cardinality(tokimori_full(_incarnation)) > 0 THEN",
        "IF false THEN",
        contract("test_waiting.py::test_nobody_waits"),
    ),
    Guard(
        LOST_REPLY,
        "which run took over what a request asked for is remembered",
        SQL,
        "UNION ALL SELECT run_id FROM tokimori_requests WHERE id = _id) k",
        ") k",
        contract("test_shared_keys.py::test_a_lost_reply_of_a_request_that_was_taken_over"),
    ),
    Guard(
        GATE,
        "runs leave their lane with the pause of their job",
        SQL,
        "    RETURN CASE WHEN tokimori_move_runs(_incarnation) THEN 'replaced' ELSE 'begun' END;",
        "    RETURN 'replaced';",
        contract("test_jobs.py::test_nothing_of_a_paused_job_is_claimed"),
    ),
    Guard(
        GATE,
        "a forced run is told from others only when those have lost their lanes",
        SQL,
        "IF _lane IS NOT NULL AND EXISTS (SELECT FROM tokimori_moves WHERE incarnation = _incarnation) THEN",
        "IF false THEN",
        contract("test_moves.py::test_a_forced_run_alone_is_claimed_while_a_job_stops"),
    ),
    Guard(
        GATE,
        "an edit of a stopped job waits until only forced runs have lanes",
        SQL,
        "IF coalesce(_forced_lane, _priority_was::text) IS NOT NULL AND EXISTS",
        "IF false AND EXISTS",
        contract("test_moves.py::test_an_edit_of_a_job_that_still_stops_moves_forced_runs_alone"),
    ),
    Guard(
        GATE,
        "the pause of a queue and claims exclude each other",
        SQL,
        "    PERFORM pg_advisory_xact_lock(hashtext('tokimori_pauses'), 0);\n",
        "",
        "tests/integration/stores/test_locks.py::test_a_pause_of_a_queue_waits_for_claims_under_way",
    ),
    Guard(
        NOBODY,
        "the server ends a transaction that has been idle for 3 s",
        "stores/postgres/connections.py",
        '"idle_in_transaction_session_timeout": "3s"',
        '"idle_in_transaction_session_timeout": "0"',
        "tests/cluster/test_frozen_in_a_transaction.py::test_a_node_frozen_in_a_transaction_stops_nobody",
    ),
    Guard(
        NOBODY,
        "a lock that is not had within 2 s is given up",
        "stores/postgres/connections.py",
        '"lock_timeout": "2s"',
        '"lock_timeout": "0"',
        "tests/integration/stores/test_postgres_pooler.py::test_time_outs_hold_behind_a_pooler",
    ),
    Guard(
        NOBODY,
        "a claim waits for nobody: what is locked stays ready",
        SQL,
        'ORDER BY "rank", id LIMIT _batch OFFSET _skip FOR UPDATE SKIP LOCKED',
        'ORDER BY "rank", id LIMIT _batch OFFSET _skip FOR UPDATE',
        "tests/integration/stores/test_locks.py::test_claims_at_once_share_a_job_without_limit",
    ),
    Guard(
        NOBODY,
        "runs are locked in the order of their ids",
        "stores/postgres/working.py",
        "in_order = sorted(changes, key=lambda change: change.run_id)",
        "in_order = list(changes)",
        "tests/integration/stores/test_locks.py::test_runs_are_locked_in_order",
    ),
    Guard(
        NOBODY,
        "a method that was undone because it met others is tried again",
        "stores/postgres/faults.py",
        'UNDONE = ("40001", "40P01")',
        "UNDONE = ()",
        "tests/integration/stores/test_postgres_locks.py::test_methods_that_deadlock_are_tried_again",
    ),
    Guard(
        NOBODY,
        "a set of functions that a node may call is not dropped",
        SQL,
        "AND NOT EXISTS (SELECT FROM tokimori_nodes WHERE functions = s.digest)",
        "",
        "tests/integration/stores/test_postgres_functions.py::test_a_set_is_gone_some_time_after_its_last_node",
    ),
    Guard(
        STALE,
        "a migration that shuts programs out drops their functions",
        SQL,
        "s.schema < _oldest OR",
        "",
        "tests/integration/stores/test_postgres_functions.py::test_a_migration_that_shuts_programs_out_drops_their_functions",
    ),
    Guard(
        STALE,
        "a program that a migration shut out does not make its functions again",
        "stores/postgres/schema.py",
        "        if pending(found, known):",
        "        if found.version is None:",
        "tests/integration/stores/test_postgres_functions.py::test_a_migration_that_shuts_programs_out_drops_their_functions",
    ),
    Guard(
        CLOCKS,
        "after a disagreement nothing is fired until three ticks agree",
        "model/lease.py",
        "return Timeline(base, at, AGREEING_TICKS, received)",
        "return Timeline(base, at)",
        "tests/unit/node/test_node_faults.py::test_nothing_fires_by_a_clock_that_jumped",
    ),
    Guard(
        CLOCKS,
        "a node's time is the store's, carried on by its own monotonic clock",
        "node/membership.py",
        "self._timeline = follow(self._timeline, pulse.now, sent, at)",
        "pass",
        "tests/unit/node/test_node_faults.py::test_a_node_goes_by_the_stores_clock",
    ),
    Guard(
        CLOCKS,
        "a node that lives for seconds believes what those before it have seen of the store's time",
        "engine/rewind.py",
        "return ahead is not None and await self._seen_by_all.seconds(now, at) >= STEADY",
        "return False",
        contract("test_rewind.py::test_nodes_that_live_for_seconds_put_it_back_together"),
    ),
    Guard(
        CLOCKS,
        "a leap of the time ends the walk that puts cursors back",
        "engine/rewind.py",
        "if self._walk is None or since > self._since + 1:",
        "if self._walk is None:",
        contract("test_rewind.py::test_a_leap_in_the_midst_of_a_walk_ends_it"),
    ),
    Guard(
        EDITORS,
        "who deletes a calendar looks again for jobs that name it",
        "service/calendars.py",
        "await retried(lambda: self._check_unused(name), StoreUnavailable)",
        "pass",
        "tests/unit/service/test_calendar_races.py::test_a_calendar_that_a_job_comes_to_name_is_not_lost",
    ),
    Guard(
        EDITORS,
        "who adds or edits a job looks again for its calendars",
        "service/days_off.py",
        "await restore(calendars, calendar)",
        "pass",
        "tests/unit/service/test_calendar_races.py::test_a_calendar_that_a_job_comes_to_name_is_not_lost",
    ),
    Guard(
        ONCE,
        "a node looks whether its store is a part of a copy, after it has joined",
        "node/node.py",
        "await refuse_unfinished(self._store)",
        "pass",
        "tests/unit/node/test_node_faults.py::test_nobody_works_on_a_part_of_a_copy",
    ),
    Guard(
        ONCE,
        "a copy marks its store, and looks for nodes again, before it writes",
        "service/copying.py",
        "await _mark(source, target)",
        "pass",
        contract("test_copying.py::test_a_node_that_joins_meanwhile_is_seen"),
    ),
    *STORE_GUARDS,
    *DOOR_GUARDS,
    *OTHERS_GUARDS,
    *SECRET_GUARDS,
)


def page() -> str:
    """The table, as it stands in the documentation."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Guards"
    yield ""
    yield "What keeps each promise, and the test that fails without it. `make prove` takes each guard out of a copy of"
    yield "the package and sees its test fail; `python -m tests.guards` writes this page. A guard of the stores is"
    yield "taken out of each store that is named: the test fails there."
    yield ""
    yield "| promise | guard | stores | test |"
    yield "|---|---|---|---|"
    stores: dict[tuple[str, str, str], set[str]] = {}
    for guard in GUARDS:
        stores.setdefault((guard.promise, guard.words, guard.test), set()).update(guard.where)
    for (promise, words, test), where in stores.items():
        file, _, name = test.partition("::")
        named = (
            "all" if where == set(STORE_NAMES) else ", ".join(STORE_NAMES[one] for one in STORE_NAMES if one in where)
        )
        yield f"| {promise} | {words} | {named} | `{name}` in `{Path(file).name}` |"
    yield ""
    yield "## Mutants that survive"
    yield ""
    yield "`make mutants` breaks lines of hand-picked modules one at a time (decision 50). Of what it broke and no"
    yield "test missed, this was left as it is."
    yield ""
    yield "| module | line | broken | why no test fails |"
    yield "|---|---|---|---|"
    for survivor in SURVIVORS:
        yield f"| `{survivor.file}` | `{survivor.text}` | `{survivor.mutant}` | {survivor.reason} |"
