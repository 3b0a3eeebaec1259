"""Which promise is kept by which guard, and which test fails without it: the table of `docs/guards.md`.

Guards of the stores are taken out of PostgreSQL's, where several nodes meet; the tests in `tests/contract/` are the
same for every store. Where another store has locks of its own, its guards say so.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/guards.md"
SQL = "stores/postgres/functions/*.sql"
MARIADB = "tests/integration/stores/test_mariadb_semaphores.py"


@dataclass(frozen=True, slots=True)
class Guard:
    """Taken out: in the package's `files`, `text` is replaced by `without`, wherever it stands."""

    promise: str
    words: str
    files: str
    text: str
    without: str
    test: str

    def take_out(self, package: Path) -> int:
        """Take it out of a copy of the package; from how many files."""
        found = [path for path in package.glob(self.files) if self.text in path.read_text()]
        for path in found:
            path.write_text(path.read_text().replace(self.text, self.without))
        return len(found)


def _contract(test: str) -> str:
    return f"tests/contract/stores/{test}"


ONCE = "An occurrence becomes at most one run"
LEDGER = "Every occurrence ends as a run or a skip"
LOST_REPLY = "A lost reply strands nothing"
REFUSED = "One refused change hinders no other"
LIVE = "A live run is never stolen, a dead node's are taken over"
DEATH = "Death is final"
PROCESSES = "A dead or frozen node leaves no process behind"
NEIGHBOURS = "A run that kills its keeper does not take its neighbours along for ever"
STALE = "A stale worker changes nothing"
LIMIT = "A limit is never exceeded"
GATE = "After a pause, edit or delete nothing of the old definition is claimed"
NOBODY = "No node is special"
CLOCKS = "Clocks may be wrong"
EDITORS = "Nothing is lost where several edit at the same time"
DOOR = "Whoever reaches the door takes no more than a stated room and time"

GUARDS = (
    Guard(
        ONCE,
        "a plan is written only where the cursor is what it was made from",
        SQL,
        " AND j.fired_through = p.fired_from",
        "",
        _contract("test_planning.py::test_of_two_planners_one_wins"),
    ),
    Guard(
        ONCE,
        "an origin is unique within an incarnation, and a conflict is ignored row by row",
        SQL,
        "ON CONFLICT DO NOTHING;\n    IF _skips",
        ";\n    IF _skips",
        _contract("test_planning.py::test_an_occurrence_that_has_a_run_gets_no_other"),
    ),
    Guard(
        ONCE,
        "the cursor never goes back",
        SQL,
        "greatest(fired_through, _fired_through)",
        "_fired_through",
        _contract("test_jobs.py::test_a_cursor_never_goes_back"),
    ),
    Guard(
        ONCE,
        "a join that is complete stays so: who ends later for the same root looks at no run",
        SQL,
        "SET parents = '{*}' WHERE",
        "SET parents = '{}' WHERE",
        "tests/integration/stores/test_postgres_locks.py::test_a_join_that_is_complete_again_waits_for_no_run",
    ),
    Guard(
        ONCE,
        "and is told from one that is not: so it has one run or one skip for each root",
        "stores/rules/births.py",
        "if parents != ALL_ARRIVED:",
        "if (parents := () if parents == ALL_ARRIVED else parents) is not None:",
        _contract("test_joins.py::test_a_join_that_is_complete_twice_has_one_skip"),
    ),
    Guard(
        LEDGER,
        "runs and skips are written together with the cursor",
        SQL,
        "IF _skips IS NOT NULL THEN",
        "IF false THEN",
        _contract("test_planning.py::test_consecutive_skips_are_one_row"),
    ),
    Guard(
        LOST_REPLY,
        "a claim carries an id made before it was sent: asked again it answers the same runs",
        SQL,
        "_left := 0;",
        "NULL;",
        _contract("test_lost_replies.py::test_claim"),
    ),
    Guard(
        LOST_REPLY,
        "a settle is known by (node, token) of who settled: asked again it is `already applied`",
        SQL,
        "(h.settled_by = _by AND h.settled_token = c.token)",
        "false",
        _contract("test_lost_replies.py::test_settle"),
    ),
    Guard(
        LOST_REPLY,
        "runs that the store gives a node and that it does not know are handed back",
        "node/worker.py",
        "await hand_back(self._source, unknown, self._membership.id, self._membership.now)",
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
        "engine/refused_runs.py",
        "            ill.skip, ill.climbs, ill.many = max(1, ill.skip), True, 1",
        "            ill.climbs, ill.many = True, 1",
        _contract("test_refused_claims.py::test_a_refused_claim_hinders_no_other"),
    ),
    Guard(
        REFUSED,
        "a promotion that the store refuses goes past the run at fault",
        "engine/promote.py",
        "self._store.promote(now, asked.limit, asked.skip)",
        "self._store.promote(now, limit)",
        _contract("test_refused_claims.py::test_a_refused_promotion_hinders_no_other"),
    ),
    Guard(
        REFUSED,
        "where another run has come before a refused one its place is looked for anew",
        "engine/refused_runs.py",
        "        if asked.skip and not ill.climbs:",
        "        if False:",
        "tests/unit/engine/test_refused_runs.py::test_a_run_that_comes_before_the_refused_one_is_taken",
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
        "model/watch.py",
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
        "who has beaten since it was looked at is not buried",
        SQL,
        "WHERE id = _dead AND beat = _beat AND",
        "WHERE id = _dead AND",
        _contract("test_nodes.py::test_a_node_that_beats_is_not_buried"),
    ),
    Guard(
        LIVE,
        "nobody settles what a living node owns",
        SQL,
        " AND c.owner <> ALL (_living)",
        "",
        _contract("test_nodes.py::test_a_living_nodes_run_is_never_stolen"),
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
        "only the living beat",
        SQL,
        "SET beat = beat + 1 WHERE id = _node AND state = 'alive'",
        "SET beat = beat + 1 WHERE id = _node",
        _contract("test_nodes.py::test_death_is_final"),
    ),
    Guard(
        DEATH,
        "only the living claim",
        SQL,
        "WHERE id = _node AND state = 'alive' FOR KEY SHARE SKIP LOCKED",
        "WHERE id = _node FOR KEY SHARE SKIP LOCKED",
        _contract("test_nodes.py::test_death_is_final"),
    ),
    Guard(
        DEATH,
        "only the living settle",
        SQL,
        "WHERE id = _by AND state = 'alive' FOR KEY SHARE",
        "WHERE id = _by FOR KEY SHARE",
        _contract("test_nodes.py::test_death_is_final"),
    ),
    Guard(
        DEATH,
        "a settle and its node's burial exclude each other",
        SQL,
        "WHERE id = _by AND state = 'alive' FOR KEY SHARE",
        "WHERE id = _by AND state = 'alive'",
        "tests/integration/stores/test_postgres_locks.py::test_a_settle_waits_for_its_nodes_burial",
    ),
    Guard(
        DEATH,
        "a claim and its node's burial exclude each other",
        SQL,
        "WHERE id = _node AND state = 'alive' FOR KEY SHARE SKIP LOCKED",
        "WHERE id = _node AND state = 'alive'",
        "tests/integration/stores/test_postgres_locks.py::test_a_burial_waits_for_claims_under_way",
    ),
    Guard(
        DEATH,
        "only the living bury",
        SQL,
        "AND EXISTS (SELECT FROM tokimori_nodes WHERE id = _observer AND state = 'alive')",
        "",
        _contract("test_nodes.py::test_only_the_living_bury"),
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
        STALE,
        "every settle is guarded by the token of its claim",
        SQL,
        "AND r.token = c.token\n",
        "\n",
        _contract("test_working.py::test_a_stale_token_changes_nothing"),
    ),
    Guard(
        LIMIT,
        "who counts the places of a job is alone",
        SQL,
        "FOR NO KEY UPDATE OF j SKIP LOCKED",
        "",
        "tests/integration/stores/test_postgres_locks.py::test_a_claim_goes_around_a_full_jobs_settle",
    ),
    Guard(
        LIMIT,
        "what does not fit is not taken",
        SQL,
        "max_running = 0 OR nth <= max_running AS fits",
        "true AS fits",
        _contract("test_limits.py::test_what_does_not_fit_stands_in_line"),
    ),
    Guard(
        LIMIT,
        "runs of many jobs are taken uncounted only where none of their jobs runs",
        SQL,
        "cardinality(_ids) = cardinality(_jobs) AND NOT EXISTS",
        "cardinality(_ids) = cardinality(_jobs) OR NOT EXISTS",
        _contract("test_limits.py::test_of_many_jobs_each_keeps_its_own_limit"),
    ),
    Guard(
        LIMIT,
        "runs of many jobs are taken uncounted only where there is one of each",
        SQL,
        "cardinality(_ids) = cardinality(_jobs) AND NOT EXISTS",
        "NOT EXISTS",
        _contract("test_limits.py::test_two_of_one_job_among_others_are_one_too_many"),
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
        "tests/integration/stores/test_postgres_locks.py::test_a_claim_goes_around_semaphores_that_somebody_counts",
    ),
    Guard(
        LIMIT,
        "a program's count waits for that of a claim",
        SQL,
        'SELECT "limit" INTO told FROM tokimori_semaphores WHERE name = _name FOR NO KEY UPDATE;',
        'SELECT "limit" INTO told FROM tokimori_semaphores WHERE name = _name;',
        "tests/integration/stores/test_postgres_locks.py::test_a_program_waits_for_the_count_of_a_claim",
    ),
    Guard(
        LIMIT,
        "what one claim gave is counted before it gives more",
        "stores/rules/admission.py",
        "self._free[name] -= weight",
        "pass",
        _contract("test_struggles.py::test_four_processes_share_one_sqlite_file"),
    ),
    Guard(
        LIMIT,
        "more units than there are left are not taken",
        SQL,
        "WHERE (w ->> 1)::integer > coalesce(tokimori_unused(w ->> 0), 1)",
        "WHERE false",
        _contract("test_semaphores.py::test_a_run_holds_as_many_units_as_it_wants"),
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
        "whatever ends an attempt gives its permits back",
        SQL,
        "DELETE FROM tokimori_permits WHERE run_id = ANY (applied) RETURNING semaphore",
        "SELECT semaphore FROM tokimori_permits WHERE run_id = ANY (applied)",
        _contract("test_semaphores.py::test_whatever_ends_an_attempt_gives_its_units_back"),
    ),
    Guard(
        LIMIT,
        "what a dead node's programs held is free",
        SQL,
        "DELETE FROM tokimori_permits WHERE node_id = _node AND run_id IS NULL;",
        "",
        _contract("test_semaphores.py::test_a_dead_session_loses_everything"),
    ),
    Guard(
        LIMIT,
        "a freed unit serves its line in the transaction that frees it",
        SQL,
        "    PERFORM tokimori_free(ARRAY[_name]);\n    RETURN true;",
        "    RETURN true;",
        _contract("test_semaphores.py::test_programs_and_runs_are_served_by_rank"),
    ),
    Guard(
        LIMIT,
        "nobody passes who is before him in his lane's line: a heavy head does not starve",
        SQL,
        "                OR EXISTS (\n                    SELECT FROM tokimori_runs b\n",
        "                OR EXISTS (\n                    SELECT FROM tokimori_runs b WHERE false) AND EXISTS (\n"
        "                    SELECT FROM tokimori_runs b\n",
        _contract("test_semaphores.py::test_a_heavy_head_is_not_starved"),
    ),
    Guard(
        DEATH,
        "only the living are granted units",
        SQL,
        "WHERE id = _node AND state = 'alive' FOR KEY SHARE;",
        "WHERE id = _node FOR KEY SHARE;",
        _contract("test_semaphores.py::test_a_dead_session_loses_everything"),
    ),
    Guard(
        DEATH,
        "a grant and its node's burial exclude each other",
        SQL,
        "WHERE id = _node AND state = 'alive' FOR KEY SHARE;",
        "WHERE id = _node AND state = 'alive';",
        "tests/integration/stores/test_postgres_locks.py::test_a_burial_waits_for_what_its_programs_ask",
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
        _contract("test_waiting.py::test_nobody_waits"),
    ),
    Guard(
        LIMIT,
        "a plan whose runs would be too many is refused",
        SQL,
        " AND p.incarnation <> ALL (_full)",
        "",
        _contract("test_waiting.py::test_a_plan_that_others_were_before_is_made_again"),
    ),
    Guard(
        LOST_REPLY,
        "which run took over what a request asked for is remembered",
        SQL,
        "UNION ALL SELECT run_id FROM tokimori_requests WHERE id = _id) k",
        ") k",
        _contract("test_shared_keys.py::test_a_lost_reply_of_a_request_that_was_taken_over"),
    ),
    Guard(
        GATE,
        "a plan of another version is refused",
        SQL,
        "j.incarnation = p.incarnation AND j.version = p.version AND",
        "j.incarnation = p.incarnation AND",
        _contract("test_jobs.py::test_a_plan_of_the_old_definition_is_refused"),
    ),
    Guard(
        GATE,
        "a plan of a paused job is refused",
        SQL,
        "\n            AND j.state = 'enabled'",
        "",
        _contract("test_jobs.py::test_a_plan_of_a_paused_job_is_refused"),
    ),
    Guard(
        GATE,
        "runs leave their lane with the pause of their job",
        SQL,
        "    RETURN CASE WHEN tokimori_move_runs(_incarnation) THEN 'replaced' ELSE 'begun' END;",
        "    RETURN 'replaced';",
        _contract("test_jobs.py::test_nothing_of_a_paused_job_is_claimed"),
    ),
    Guard(
        GATE,
        "a claim takes no run that has not followed its job yet",
        SQL,
        "IF EXISTS (SELECT FROM tokimori_moves) THEN",
        "IF false THEN",
        _contract("test_moves.py::test_nothing_of_a_paused_job_is_claimed"),
    ),
    Guard(
        GATE,
        "on SQLite, a claim takes no run that has not followed its job yet",
        "stores/sqlite/working.py",
        "incarnation = r.incarnation AND coalesce(forced_lane, j.lane) IS NOT r.lane",
        "0",
        _contract("test_moves.py::test_nothing_of_a_paused_job_is_claimed"),
    ),
    Guard(
        GATE,
        "a forced run is told from others only when those have lost their lanes",
        SQL,
        "IF _lane IS NOT NULL AND EXISTS (SELECT FROM tokimori_moves WHERE incarnation = _incarnation) THEN",
        "IF false THEN",
        _contract("test_moves.py::test_a_forced_run_alone_is_claimed_while_a_job_stops"),
    ),
    Guard(
        GATE,
        "an edit of a stopped job waits until only forced runs have lanes",
        SQL,
        "IF _forced_lane IS NOT NULL AND EXISTS (SELECT FROM tokimori_moves WHERE incarnation = _incarnation) THEN",
        "IF false THEN",
        _contract("test_moves.py::test_an_edit_of_a_job_that_still_stops_moves_forced_runs_alone"),
    ),
    Guard(
        GATE,
        "a claim takes from no lane of a paused queue",
        "stores/postgres/working.py",
        "tokimori_open_lanes($3)",
        "$3",
        _contract("test_pauses.py::test_a_paused_queue_waits"),
    ),
    Guard(
        GATE,
        "the pause of a queue and claims exclude each other",
        SQL,
        "    PERFORM pg_advisory_xact_lock(hashtext('tokimori_pauses'), 0);\n",
        "",
        "tests/integration/stores/test_postgres_locks.py::test_a_pause_of_a_queue_waits_for_claims_under_way",
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
        "a lock that is not had within 3 s is given up",
        "stores/postgres/connections.py",
        '"lock_timeout": "3s"',
        '"lock_timeout": "0"',
        "tests/integration/stores/test_postgres_pooler.py::test_time_outs_hold_behind_a_pooler",
    ),
    Guard(
        NOBODY,
        "a claim waits for nobody: what is locked stays ready",
        SQL,
        'ORDER BY "rank", id LIMIT _batch OFFSET _skip FOR UPDATE SKIP LOCKED',
        'ORDER BY "rank", id LIMIT _batch OFFSET _skip FOR UPDATE',
        "tests/integration/stores/test_postgres_locks.py::test_claims_at_once_share_a_job_without_limit",
    ),
    Guard(
        NOBODY,
        "runs are locked in the order of their ids",
        "stores/postgres/working.py",
        "in_order = sorted(changes, key=lambda change: change.run_id)",
        "in_order = list(changes)",
        "tests/integration/stores/test_postgres_locks.py::test_runs_are_locked_in_order",
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
        "model/timeline.py",
        "return Timeline(base, at, AGREEING_TICKS)",
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
        EDITORS,
        "a document is replaced only from the version that its editor has read",
        "stores/postgres/documents.py",
        "AND version = $5",
        "AND $5::bigint > 0",
        _contract("test_documents.py::test_of_many_editors_none_loses_anything"),
    ),
    Guard(
        EDITORS,
        "a document is deleted only in the version that was read",
        "stores/postgres/documents.py",
        "AND version = $3",
        "AND $3::bigint > 0",
        _contract("test_documents.py::test_who_deletes_and_who_edits_do_not_both_succeed"),
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
        _contract("test_copying.py::test_a_node_that_joins_meanwhile_is_seen"),
    ),
    Guard(
        DOOR,
        "a connection that waits too long for its client is ended",
        "api/connections.py",
        "            if connection.deadline <= now:",
        "            if False:",
        "tests/integration/http/test_connections.py::test_what_does_not_come_is_not_waited_for",
    ),
    Guard(
        DOOR,
        "where there are as many connections as may be, the longest waiting is closed",
        "api/connections.py",
        "        self._drop(next(iter(self._waiting)))\n",
        "",
        "tests/integration/http/test_connections.py::test_the_door_has_room_beside_half_open_connections",
    ),
    Guard(
        DOOR,
        "a connection whose client waits for the door is not closed for another",
        "api/http_connection.py",
        "            self._all.is_answered(self)\n",
        "",
        "tests/integration/http/test_connections.py::test_who_waits_for_an_answer_is_not_sent_away",
    ),
    Guard(
        DOOR,
        "requests that are not answered yet have a bound",
        "api/connections.py",
        "            self._drop(largest)\n",
        "            return\n",
        "tests/integration/http/test_connections.py::test_requests_that_are_held_have_a_bound",
    ),
    Guard(
        DOOR,
        "a client that takes nothing of its answer is gone",
        "api/http_connection.py",
        "            if size > self._untaken - LEAST_TAKEN:",
        "            if False:",
        "tests/integration/http/test_connections.py::test_an_answer_that_nobody_reads_is_not_kept",
    ),
    Guard(
        DOOR,
        "headers have a bound while they come",
        "api/http_connection.py",
        "        if self._in_head and self._size > MOST_HEAD:",
        "        if False:",
        "tests/integration/http/test_connections.py::test_headers_have_a_bound",
    ),
    Guard(
        DOOR,
        "headers behind a body are no headers",
        "api/http_connection.py",
        "        if self._in_head:\n            super().on_header",
        "        if True:\n            super().on_header",
        "tests/integration/http/test_connections.py::test_headers_behind_a_body_are_not_the_requests",
    ),
    Guard(
        DOOR,
        "accepted sockets send at once",
        "api/server.py",
        "socket.SOCK_STREAM, socket.IPPROTO_TCP)",
        "socket.SOCK_STREAM)",
        "tests/integration/http/test_connections.py::test_keep_alive_is_fast",
    ),
    Guard(
        DOOR,
        "a report that can't be read now is read later",
        "executors/exchange.py",
        "            if fault.errno in _NO_REPORT:",
        "            if True:",
        "tests/integration/executors/test_exchange.py::test_a_report_that_cannot_be_read_now_is_read_later",
    ),
)


def page() -> str:
    """The table, as it stands in the documentation."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Guards"
    yield ""
    yield "What keeps each promise, and the test that fails without it. `make prove` takes each guard out of a copy of"
    yield "the package and sees its test fail; `python -m tests.guards` writes this page. Guards of the stores are"
    yield "taken out of PostgreSQL's, those of a file out of SQLite's; the tests in `tests/contract/` hold every store"
    yield "to the same."
    yield ""
    yield "| promise | guard | test |"
    yield "|---|---|---|"
    for guard in GUARDS:
        file, _, test = guard.test.partition("::")
        yield f"| {guard.promise} | {guard.words} | `{test}` in `{Path(file).name}` |"
