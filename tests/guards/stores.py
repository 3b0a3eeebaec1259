"""Guards that every store has, each taken out of every store: once for each line that keeps the promise there.

Memory, SQLite and MariaDB judge by the same rules in Python, PostgreSQL by functions of its own, Redis by its scripts.
Where a rule is one line for several stores, its test fails on each of them. A line is not here if a mutant of
`make mutants` is the same as taking it out. One that breaks more does not count: any test fails by it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tests.guards.guard import DEATH, EDITORS, GATE, LIMIT, LIVE, LOST_REPLY, ONCE, STALE, Guard, contract

RULES = ("memory", "sqlite", "mariadb")
FUNCTIONS = "stores/postgres/functions"
SCRIPTS = "stores/redis/scripts"


class _Line(NamedTuple):
    """Where it stands in the stores that judge by it, and what stands there without it."""

    stores: tuple[str, ...]
    files: str
    text: str
    without: str


def _rules(file: str, text: str, without: str) -> _Line:
    return _Line(RULES, f"stores/rules/{file}", text, without)


def _tables(text: str, without: str) -> _Line:
    return _Line(("sqlite", "postgres", "mariadb"), "stores/reading.py", text, without)


def _memory(file: str, text: str, without: str) -> _Line:
    return _Line(("memory",), f"stores/memory/{file}", text, without)


def _sqlite(file: str, text: str, without: str) -> _Line:
    return _Line(("sqlite",), f"stores/sqlite/{file}", text, without)


def _postgres(file: str, text: str, without: str) -> _Line:
    return _Line(("postgres",), f"stores/postgres/{file}", text, without)


def _mariadb(file: str, text: str, without: str) -> _Line:
    return _Line(("mariadb",), f"stores/mysql/{file}", text, without)


def _redis(file: str, text: str, without: str) -> _Line:
    return _Line(("redis",), f"{SCRIPTS}/{file}", text, without)


def _everywhere(promise: str, words: str, test: str, *lines: _Line) -> Iterator[Guard]:
    for stores, files, text, without in lines:
        yield Guard(promise, words, files, text, without, contract(test), stores)


STORE_GUARDS: tuple[Guard, ...] = (
    *_everywhere(
        ONCE,
        "a plan is written only where the cursor is what it was made from",
        "test_planning.py::test_of_two_planners_one_wins",
        _rules("new_runs.py", "plan.version, plan.fired_from,", "plan.version, cursor.fired_through,"),
        _postgres("functions/*.sql", " AND j.fired_through = p.fired_from", ""),
        _redis("apply.lua", " and tonumber(fired_through) == plan.fired_from", ""),
    ),
    *_everywhere(
        ONCE,
        "an origin is unique within an incarnation, and a conflict is ignored row by row",
        "test_planning.py::test_an_occurrence_that_has_a_run_gets_no_other",
        _memory("tables.py", "if (run.incarnation, run.origin) not in self.origins:", "if True:"),
        _sqlite("jobs.py", "ON CONFLICT (incarnation, origin) DO NOTHING", ""),
        _postgres("functions/*.sql", "ON CONFLICT DO NOTHING;\n    IF _skips", ";\n    IF _skips"),
        _mariadb("jobs.py", '"ON DUPLICATE KEY UPDATE tokimori_runs.id = tokimori_runs.id"', '""'),
        _redis("turns.lua", "born.origin, born.id) == 0 then", "born.origin, born.id) == 2 then"),
    ),
    *_everywhere(
        ONCE,
        "a cursor goes back only together with the skips behind it",
        "test_rewind.py::test_a_skip_is_cut_at_now_and_later_ones_are_gone",
        _memory(
            "jobs.py",
            " for first, skip in known.items() if first <= job.fired_through",
            " for first, skip in known.items()",
        ),
        _sqlite("jobs.py", "AND first > ?", "AND first > 4 * ?"),
        _postgres("functions/*.sql", "AND first > _fired_through", "AND false"),
        _mariadb("jobs.py", "AND first > %s", "AND first > 4 * %s"),
        _redis(
            "replace_job.lua",
            "call('ZREMRANGEBYSCORE', P .. 'skips:' .. ask.inc,",
            "call('ZREMRANGEBYSCORE', P .. 'no:' .. ask.inc,",
        ),
    ),
    *_everywhere(
        ONCE,
        "when a cursor goes back, what is due later waits again",
        "test_rewind.py::test_ready_runs_that_are_due_later_wait_again",
        _memory("jobs.py", "if row.run.due > job.updated and", "if False and"),
        _sqlite("jobs.py", "AND state = 'ready' AND due > ?", "AND state = 'none' AND due > ?"),
        _postgres("functions/*.sql", "AND state = 'ready' AND due > _updated", "AND false"),
        _mariadb("jobs.py", "AND state = 'ready' AND due > %s", "AND state = 'none' AND due > %s"),
        _redis("replace_job.lua", "tonumber(due) > ask.put_off", "false"),
    ),
    *_everywhere(
        ONCE,
        "a child of all of its parents waits for each of them",
        "test_dependents.py::test_a_child_waits_for_all_of_its_parents",
        _rules("new_runs.py", "complete = jobs != ALL_ARRIVED and len(jobs) >= child.joins", "complete = True"),
        _postgres("functions/*.sql", " OR cardinality(_arrived) < _child.joins", ""),
        _redis("new_runs.lua", "if call('SCARD', keys[1]) < child.joins then", "if false then"),
    ),
    *_everywhere(
        ONCE,
        "a join that is complete stays so: it has one run or one skip for each root",
        "test_joins.py::test_a_join_that_is_complete_twice_has_one_skip",
        _postgres(
            "functions/*.sql",
            "UPDATE tokimori_arrivals SET parents = '{*}'",
            "UPDATE tokimori_arrivals SET parents = '{}'",
        ),
        _redis("new_runs.lua", "    call('SADD', key, '*')\n", ""),
    ),
    *_everywhere(
        LOST_REPLY,
        "a claim carries an id made before it was sent: asked again it answers the same runs",
        "test_lost_replies.py::test_claim",
        _memory("working.py", "    if not taken:\n", "    if True:\n"),
        _sqlite("working.py", "has_rest = not _claimed_before(db, claim) and _take(", "has_rest = _take("),
        _postgres("functions/*.sql", "_left := 0;", "NULL;"),
        _mariadb("working.py", "if not node.rows or known.rows:", "if not node.rows:"),
        _redis("claim.lua", "if owned[n + 1] == ask.id then", "if false then"),
    ),
    *_everywhere(
        LOST_REPLY,
        "a settle is known by (node, token) of who settled: asked again it is `already applied`",
        "test_lost_replies.py::test_settle",
        _rules("settling.py", "if (facts.settled_by, facts.settled_token) == (by, change.token):", "if by is None:"),
        _postgres("functions/*.sql", "(h.settled_by = _by AND h.settled_token = c.token)", "false"),
        _redis("settle.lua", "if run.settled_by == ask.by and ", "if false and "),
    ),
    *_everywhere(
        LIVE,
        "who has beaten since it was looked at is not buried",
        "test_nodes.py::test_a_node_that_beats_is_not_buried",
        _memory("nodes.py", " and node.beat == beat", ""),
        _sqlite("nodes.py", "WHERE id = ? AND beat = ? AND", "WHERE id = ? AND ? IS NOT NULL AND"),
        _postgres("functions/*.sql", "WHERE id = _dead AND beat = _beat AND", "WHERE id = _dead AND"),
        _mariadb("nodes.py", "beats.rows != [(beat,)]", "not beats.rows"),
        _redis("bury.lua", " and tonumber(beat) == ask.beat", ""),
    ),
    *_everywhere(
        LIVE,
        "nobody settles what a living node owns",
        "test_nodes.py::test_a_living_nodes_run_is_never_stolen",
        _rules("settling.py", "change.owner == by or nodes.get(change.owner) is not _ALIVE", "True"),
        _postgres("functions/*.sql", " AND c.node_id <> ALL (_living)", ""),
        _redis("settle.lua", "change.owner == ask.by or state_of(change.owner) ~= 'alive'", "true"),
    ),
    *_everywhere(
        DEATH,
        "only the living beat",
        "test_nodes.py::test_death_is_final",
        _memory(
            "nodes.py",
            "    if node is None or node.state is not NodeState.ALIVE:\n        return None\n",
            "    if node is None:\n        return None\n",
        ),
        _sqlite("nodes.py", "SET beat = beat + 1 WHERE id = ? AND state = 'alive'", "SET beat = beat + 1 WHERE id = ?"),
        _postgres(
            "functions/*.sql",
            "SET beat = beat + 1 WHERE id = _node AND state = 'alive'",
            "SET beat = beat + 1 WHERE id = _node",
        ),
        _mariadb("nodes.py", '    yield sql("DELETE FROM tokimori_beats WHERE id = %s", node)\n', ""),
        _redis("tick.lua", "if not is_alive(ask.node) then", "if false then"),
    ),
    *_everywhere(
        DEATH,
        "only the living claim",
        "test_nodes.py::test_death_is_final",
        _memory(
            "working.py",
            "    if node is None or node.state is not NodeState.ALIVE:\n        return []\n",
            "    if node is None:\n        return []\n",
        ),
        _sqlite(
            "working.py", "    if state_of(db, claim.node) is not NodeState.ALIVE:\n        return [], False\n", ""
        ),
        _postgres(
            "functions/*.sql",
            "WHERE id = _node AND state = 'alive' FOR KEY SHARE SKIP LOCKED",
            "WHERE id = _node FOR KEY SHARE SKIP LOCKED",
        ),
        _mariadb(
            "working.py", "WHERE id = %s AND state = 'alive' {SHARED} SKIP LOCKED", "WHERE id = %s {SHARED} SKIP LOCKED"
        ),
        _redis("claim.lua", "if not is_alive(ask.node) then", "if false then"),
    ),
    *_everywhere(
        DEATH,
        "only the living settle",
        "test_nodes.py::test_death_is_final",
        _rules("settling.py", "alive = nodes.get(by) is _ALIVE", "alive = True"),
        _postgres(
            "functions/*.sql",
            "WHERE id = _by AND state = 'alive' FOR KEY SHARE",
            "WHERE id = _by FOR KEY SHARE",
        ),
        _redis("settle.lua", " and state_of(ask.by) == 'alive' and", " and"),
    ),
    *_everywhere(
        DEATH,
        "only the living bury",
        "test_nodes.py::test_only_the_living_bury",
        _memory("nodes.py", " and judge is not None and judge.state is NodeState.ALIVE", ""),
        _sqlite(
            "nodes.py",
            "AND EXISTS (SELECT 1 FROM tokimori_nodes WHERE id = ? AND state = 'alive')",
            "AND ? IS NOT NULL",
        ),
        _postgres(
            "functions/*.sql",
            "AND EXISTS (SELECT FROM tokimori_nodes WHERE id = _observer AND state = 'alive')",
            "",
        ),
        _mariadb("nodes.py", " or states.get(by) != NodeState.ALIVE", ""),
        _redis("bury.lua", " and is_alive(ask.by)", ""),
    ),
    *_everywhere(
        DEATH,
        "only the living are granted units",
        "test_semaphores.py::test_a_dead_session_loses_everything",
        _memory(
            "semaphores.py",
            "    if node is None or node.state is not NodeState.ALIVE:\n        return port.NodeGone()\n",
            "    if node is None:\n        return port.NodeGone()\n",
        ),
        _sqlite(
            "semaphores.py",
            "    if state_of(db, request.node) is not NodeState.ALIVE:\n        return port.NodeGone()\n",
            "",
        ),
        _postgres(
            "functions/*.sql", "WHERE id = _node AND state = 'alive' FOR KEY SHARE;", "WHERE id = _node FOR KEY SHARE;"
        ),
        _mariadb(
            "semaphores.py",
            "FROM tokimori_nodes WHERE id = %s AND state = 'alive'",
            "FROM tokimori_nodes WHERE id = %s",
        ),
        _redis("acquire.lua", "if not is_alive(ask.node) then", "if false then"),
    ),
    *_everywhere(
        STALE,
        "every settle is guarded by the token of its claim",
        "test_working.py::test_a_stale_token_changes_nothing",
        _rules(
            "settling.py",
            "(facts.node_id, facts.token) == (change.owner, change.token)",
            "facts.node_id == change.owner",
        ),
        _postgres("functions/settle.sql", " AND r.token = c.token ELSE", " ELSE"),
        _redis("settle.lua", " and tonumber(run.token) == change.token", ""),
    ),
    *_everywhere(
        STALE,
        "and by the node that owns the run",
        "test_working.py::test_a_refused_change_hinders_no_other",
        _rules(
            "settling.py",
            "(facts.node_id, facts.token) == (change.owner, change.token)",
            "facts.token == change.token",
        ),
        _postgres("functions/settle.sql", "r.node_id IS NOT DISTINCT FROM c.node_id AND r.token", "r.token"),
        _redis("settle.lua", " and run.owner == change.owner", ""),
    ),
    *_everywhere(
        LIMIT,
        "what does not fit is not taken",
        "test_limits.py::test_what_does_not_fit_stands_in_line",
        _rules("admission.py", "if not fits(self.running[run.incarnation], run.max_running):", "if False:"),
        _postgres("functions/*.sql", "max_running = 0 OR nth <= max_running AS fits", "true AS fits"),
        _redis("claim.lua", "if terms.limit ~= 0 and count(run.inc) >= terms.limit then", "if false then"),
    ),
    *_everywhere(
        LIMIT,
        "what a claim takes of a job is counted before it takes more",
        "test_limits.py::test_what_does_not_fit_stands_in_line",
        _postgres(
            "functions/claim.sql",
            'row_number() OVER (PARTITION BY r.incarnation ORDER BY r."rank", r.id) + CASE',
            "1 + CASE",
        ),
        _redis("claim.lua", "    running[run.inc] = count(run.inc) + 1\n", ""),
    ),
    *_everywhere(
        LIMIT,
        "a claim that has enough sends nobody to a line",
        "test_limits.py::test_what_comes_when_a_claim_has_enough_stays_ready",
        _memory("working.py", "        if len(taken) == claim.limit:\n            break\n", ""),
        _sqlite("working.py", "if is_cut or len(taken) == claim.limit:", "if is_cut:"),
        _postgres("functions/claim.sql", "NOT fits AND taken < _left", "NOT fits"),
        _mariadb("working.py", "        if len(taken) == catch.wanted:\n            break\n", ""),
        _redis("claim.lua", "local run = #taken < ask.limit and next_run()", "local run = next_run()"),
    ),
    *_everywhere(
        LIMIT,
        "a freed place wakes the next in line in the transaction that frees it",
        "test_limits.py::test_a_freed_place_wakes_the_next_in_line",
        _memory("working.py", "    serve(tables, freed)\n    return verdicts\n", "    return verdicts\n"),
        _sqlite("working.py", "    lines.serve(db, freed)\n    return verdicts\n", "    return verdicts\n"),
        _postgres(
            "functions/settle.sql",
            "PERFORM tokimori_wake(CASE WHEN cardinality(applied)",
            "PERFORM (CASE WHEN cardinality(applied)",
        ),
        _mariadb("working.py", "served = await lines.serve(transaction, freed, writes, left)", "served = writes"),
        _redis("settle.lua", "local served = serve()\n", "local served = 0\n"),
    ),
    *_everywhere(
        LIMIT,
        "runs of one key are no more than its job allows",
        "test_concurrency_keys.py::test_a_full_key_delays_only_its_own_runs",
        _rules("admission.py", "fits=fits(self.running[key], run.max_per_key)", "fits=True"),
        _postgres("functions/lacks.sql", "coalesce(j.max_per_key, 1) <= (", "2147483647 <= ("),
        _redis(
            "claim.lua", "count(run.inc .. ':' .. run.key) >= terms.per_key", "count(run.inc .. ':' .. run.key) < 0"
        ),
    ),
    *_everywhere(
        LIMIT,
        "more units than there are left are not taken",
        "test_semaphores.py::test_a_run_holds_as_many_units_as_it_wants",
        _rules("admission.py", "weight <= self._free[name]", "True"),
        _postgres("functions/*.sql", "(w ->> 1)::integer > coalesce(tokimori_unused(w ->> 0), 1)", "false"),
        _redis("claim.lua", " or (not is_rate_alone(name) and semaphore.used + weight > semaphore.limit)", ""),
    ),
    *_everywhere(
        LIMIT,
        "whatever ends an attempt gives its permits back",
        "test_semaphores.py::test_whatever_ends_an_attempt_gives_its_units_back",
        _memory("working.py", "        freed.semaphores |= give_back(tables, row.run.id)\n", ""),
        _postgres(
            "functions/*.sql",
            "DELETE FROM tokimori_permits WHERE run_id = ANY (applied) RETURNING semaphore",
            "SELECT semaphore FROM tokimori_permits WHERE run_id = ANY (applied)",
        ),
        _mariadb("working.py", "*_give_back(given_back), ", ""),
        _redis("settle.lua", "        give_back(id, run.holds)\n", ""),
    ),
    *_everywhere(
        LIMIT,
        "what a dead node's programs held is free",
        "test_semaphores.py::test_a_dead_session_loses_everything",
        _memory("nodes.py", "        drop_programs(tables, dead)\n", ""),
        _sqlite("nodes.py", "        lines.drop_permits(db, dead)\n", "        pass\n"),
        _postgres("functions/*.sql", "DELETE FROM tokimori_permits WHERE node_id = _node AND run_id IS NULL;", ""),
        _mariadb("nodes.py", "[sql(_DROP, node)] if held.rows else []", "[]"),
        _redis("bury.lua", "    drop_programs(ask.dead)\n", ""),
    ),
    *_everywhere(
        LIMIT,
        "a run that waits again passes its turn in a line on",
        "test_rewind.py::test_a_ready_run_that_waits_again_passes_its_turn_on",
        _memory("runs.py", "    tables.put(row, after)\n    serve(tables, freed)", "    tables.put(row, after)"),
        _sqlite("runs.py", "        lines.serve(db, freed)\n", ""),
        _postgres(
            "functions/*.sql",
            "PERFORM tokimori_pass_on(_run.incarnation, _run.state, _run.concurrency_key, _run.blocked_on, _names);",
            "",
        ),
        _mariadb("runs.py", "*await lines.serve(transaction, left, [change], places)", "change"),
        _redis("leave_line.lua", "    make_way(inc, state, constraint, key)\n", ""),
    ),
    *_everywhere(
        LIMIT,
        "nobody passes who is before him in his lane's line: a heavy head does not starve",
        "test_semaphores.py::test_a_heavy_head_is_not_starved",
        _postgres(
            "functions/*.sql",
            "                OR (\n                    SELECT true FROM tokimori_runs b\n",
            "                OR (\n                    SELECT false) AND EXISTS (\n"
            "                    SELECT FROM tokimori_runs b\n",
        ),
        _redis("claim.lua", "\n        or is_behind(run, line_of(run.inc, run.lane, 'semaphore:' .. name))", ""),
    ),
    *_everywhere(
        LIMIT,
        "of many requests all find room, or none is kept",
        "test_runs.py::test_of_many_requests_all_are_refused_or_none",
        _memory("runs.py", "not tables.has_room(job, sum(new))", "not tables.has_room(job, 1)"),
        _sqlite("runs.py", "not has_room(lines.count_active(db, run.incarnation), 1, most)", "False"),
        _postgres("functions/add_runs.sql", "IF cardinality(tokimori_full(_incarnation)) > 0 THEN", "IF false THEN"),
        _mariadb("runs.py", "len(runs) <= room", "room > 0"),
        _redis("add_run.lua", "not has_room(born.inc, #new)", "not has_room(born.inc, 1)"),
    ),
    *_everywhere(
        LIMIT,
        "a plan whose runs would be too many is refused",
        "test_waiting.py::test_a_plan_that_others_were_before_is_made_again",
        _memory("jobs.py", " or not may_apply(plan, cursor) or not fits:", " or not may_apply(plan, cursor):"),
        _sqlite("jobs.py", "may_apply(plan, cursor) and fits:", "may_apply(plan, cursor):"),
        _postgres("functions/*.sql", " AND p.incarnation <> ALL (_full)", ""),
        _mariadb("jobs.py", "may_apply(plan, cursor) and fits:", "may_apply(plan, cursor):"),
        _redis("apply.lua", "\n        and has_room(plan.inc, #plan.runs)", ""),
    ),
    *_everywhere(
        GATE,
        "a plan of another version is refused",
        "test_jobs.py::test_a_plan_of_the_old_definition_is_refused",
        _rules("new_runs.py", "Cursor(plan.incarnation, plan.version,", "Cursor(plan.incarnation, cursor.version,"),
        _postgres(
            "functions/*.sql",
            "j.incarnation = p.incarnation AND j.version = p.version AND",
            "j.incarnation = p.incarnation AND",
        ),
        _redis("apply.lua", "tonumber(version or -1) == plan.version and", "version and"),
    ),
    *_everywhere(
        GATE,
        "a plan of a paused job is refused",
        "test_jobs.py::test_a_plan_of_a_paused_job_is_refused",
        _rules("new_runs.py", "plan.fired_from, JobState.ENABLED)", "plan.fired_from, cursor.state)"),
        _postgres("functions/*.sql", "\n            AND j.state = 'enabled'", ""),
        _redis("apply.lua", " and state == 'enabled'", ""),
    ),
    *_everywhere(
        GATE,
        "a claim takes no run that has not followed its job yet",
        "test_moves.py::test_nothing_of_a_paused_job_is_claimed",
        _sqlite("working.py", "incarnation = r.incarnation AND coalesce(forced_lane, j.lane) IS NOT r.lane", "0"),
        _postgres("functions/*.sql", "IF EXISTS (SELECT FROM tokimori_moves) THEN", "IF false THEN"),
        _mariadb("admission.py", " if moved.rows else {}", " if False else {}"),
        _redis("claim.lua", "if move and (", "if false and ("),
    ),
    *_everywhere(
        GATE,
        "a claim takes from no lane of a paused queue",
        "test_pauses.py::test_a_paused_queue_waits",
        _memory("working.py", "open_lanes(claim.lanes, tables.pauses)", "claim.lanes"),
        _sqlite("working.py", "open_lanes(claim.lanes, paused), claim.skip", "claim.lanes, claim.skip"),
        _postgres("working.py", "tokimori_open_lanes($3)", "$3"),
        _mariadb("working.py", "claimable(claim.lanes, paused)", "claim.lanes"),
        _redis("claim.lua", "open_lanes(ask.lanes)", "ask.lanes"),
    ),
    *_everywhere(
        EDITORS,
        "a document is replaced only from the version that its editor has read",
        "test_documents.py::test_of_many_editors_none_loses_anything",
        _memory("tables.py", "if (None if known is None else known.version) != replaces:", "if False:"),
        _tables('f"{statement} AND version = %s", text, version', 'f"{statement} AND 0 < %s", text, version'),
        _redis("put_document.lua", "if version ~= (ask.replaces or false) then", "if false then"),
    ),
    *_everywhere(
        EDITORS,
        "a document is deleted only in the version that was read",
        "test_documents.py::test_a_document_is_deleted_only_where_it_was_seen",
        _memory("tables.py", "if known is not None and known.version != version:", "if False:"),
        _tables(
            "DELETE FROM tokimori_documents WHERE kind = %s AND name = %s AND version = %s",
            "DELETE FROM tokimori_documents WHERE kind = %s AND name = %s AND 0 < %s",
        ),
        _redis("delete_document.lua", "if version and version ~= ask.version then", "if false then"),
    ),
    *_everywhere(
        EDITORS,
        "what is changed under a document is changed only while it has that version",
        "test_guarded.py::test_nothing_changes_under_a_document_that_was_changed_or_deleted",
        _memory("store.py", "self.check(lambda each", "str(lambda each"),
        _sqlite("store.py", "self.check(_holds(db))\n            return", "return"),
        _postgres("connections.py", "self.check(found.__contains__)", "found"),
        _mariadb("sessions.py", "existing(next(iter(found.rows), None), overtaken(guard))", "found"),
        _redis("prelude.lua", "if ask.guard and call", "if false and call"),
    ),
    *_everywhere(
        ONCE,
        "who is no node writes nothing into a part of a copy",
        "test_guarded.py::test_nothing_changes_while_the_store_is_shut",
        _memory("store.py", "self.check(lambda each", "str(lambda each"),
        _sqlite("store.py", "self.check(_holds(db))\n            return", "return"),
        _postgres("connections.py", "self.check(found.__contains__)", "found"),
        _mariadb("sessions.py", "raise shut.error()", "pass"),
        _redis("prelude.lua", "if ask.shut and call", "if false and call"),
    ),
)
