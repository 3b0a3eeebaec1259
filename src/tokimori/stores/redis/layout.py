"""Layout of the server: every key, its type, its content, and the scripts (or files) that use it.

Every key begins with the prefix of the installation, whose braces put all of them into one slot of a cluster. What is
null is absent. Moments are microseconds since 1970-01-01T00:00:00Z: below 2^53, so that scores, which are doubles, hold
them exactly, and ranks too. An incarnation is not, and stays text; <inc> is its decimal form. A set "by name" has one
score for all. A change of what stands here raises `SCHEMA`.

schema                  hash    version, oldest: `SCHEMA` and `OLDEST` of the newest program that migrated; migrated:
                                when; without it scripts refuse to work; in: prelude, schema.py

job:<inc>               hash    a job: the columns of a row, and of its definition max_running, most_active (absent: any
                                number), semaphores (JSON, {name, weight} each by name), max_per_key (absent: 1),
                                priority, head_start (how much it takes from the rank of a run), concurrency_key,
                                queue, and lane unless its runs wait nowhere
                                in: add_jobs, add_run, apply, delete_job, get_job, lines, list_jobs, moves, new_runs,
                                    outdated, prelude, replace_job, settle
job_ids                 hash    id -> incarnation
                                in: add_jobs, counts, delete_job, export_rows, get_due, get_job, list_jobs, new_runs,
                                    prune, skips, tallies
jobs                    zset    ids: by name; in: add_jobs, delete_job, export_rows, list_jobs
queues                  zset    "queue id" of each job: by name; in: add_jobs, delete_job, list_queues, replace_job
idle                    zset    ids of enabled jobs that no moment wakes: by name; in: prelude, list_jobs
due                     zset    enabled jobs by next_due; the member is the incarnation, padded to 19 digits, so that
                                those of one moment are in the order of numbers; in: due, prelude
reckoned                zset    the same jobs: by name, which is "tzdata incarnation", with the tzdata of next_due
                                in: outdated, prelude
skips:<inc>             zset    rows of the ledger by their first moment: "first last count reason"
                                in: counts, export_rows, import_rows, new_runs, prelude, prune, replace_job, skips
moves                   hash    incarnation of a changed or deleted job -> how far its runs have followed it,
                                MessagePack; in: add_run, claim, jobs.py, move_runs, moves, replace_job, tick
deleted                 zset    jobs that are gone, whose rows are still to be pruned: by name, "incarnation id", padded
                                as in due; in: counts, delete_job, export_rows, import_rows, prune, runs.py
deleted:<inc>           hash    version, definition, created, deleted of a job of which something ran when it was
                                deleted; in: delete_job, deleted_job, prune
tombstones:<job id>     zset    incarnations of these, by when they were deleted
                                in: delete_job, deleted_job, prune, tallies
counts:<job id>         hash    "incarnation day outcome" -> how many rows were pruned; the day is midnight UTC, of a
                                run's end or of a skip's last moment, the outcome the last state of runs or the reason
                                of skips; in: copying.py, counts, import_rows, prune

family                  string  the version of the edges, which grows with every change of them; in: family, prelude
edges                   set     which jobs run after which, a text each: "parent child on joins declared_by"
                                in: family, new_runs, prelude
children:<job id>       set     the edges of a parent; in: delete_job, new_runs, prelude
declares:<job id>       set     the edges that a job declares; in: prelude
arrived:<inc>:<root>    set     for a child that waits for all of its parents: those that have ended as asked, * once
                                all have; behind r: their runs; in: copying.py, import_rows, new_runs, prune
arrivals:<inc>          zset    the roots of these, by when the latest parent ended
                                in: copying.py, import_rows, new_runs, prune

run:<id>                hash    a run: the columns of a row; settled_by, settled_token: who settled it last; holds,
                                while it runs: "name weight" for each semaphore
                                in: add_run, apply, cancel_run, claim, count_runs, ended_since, export_rows,
                                    import_rows, last_runs, leave_line, lines, list_runs, list_semaphores, moves,
                                    new_runs, orphans, prelude, promote, prune, replace_job, resume_run, runs.py,
                                    runs_of, settle, tallies, tick, turns
runs                    zset    ids of all runs: by name, which is by age
                                in: export_rows, import_rows, list_runs, prune, turns
runs:<job id>           zset    the same of all runs of a job
                                in: count_runs, import_rows, last_runs, list_runs, prune, tallies, turns
live                    zset    ids of those that have not ended: by name
                                in: export_rows, list_runs, prelude, prune, tallies, turns
broken                  zset    ids of those that have ended, but not succeeded: by name
                                in: import_rows, list_runs, prelude, prune, tallies
ends                    stream  of each script that ended runs the ids, for a day; in: ended_since, prelude, prune_nodes
live:<inc>              zset    the same of one job's life
                                in: deleted_job, moves, prelude, prune, replace_job, tallies, turns
scheduled:<inc>         set     those of them that its schedule made
                                in: apply, prelude, turns
origins:<inc>           hash    origin -> run; scheduled ones until their run ends, then fired_through guards them
                                in: add_run, import_rows, prelude, prune, runs_of, turns
newest:<inc>            hash    what the origins of a key of requests begin with -> its newest run, and those that lived
                                when it was made; in: add_run, prelude
request:<id>            string  the run that took over what a request asked for; for an hour; in: add_run
attempts:<run>          hash    number -> an attempt, JSON; in: export_rows, import_rows, prune, runs.py, settle
output:<run>:<attempt>  hash    size, head, tail, times; settled: it came with the attempt's end, and stays
                                in: export_rows, import_rows, prune, runs.py, save_outputs, settle

A live run stands in the index of its state:

waiting                 zset    by due; in: lines, list_runs, prelude, promote
ready:<lane>            zset    by rank, then id; a run without lane stands nowhere
                                in: claim, lines, prelude, tick, turns
lanes                   set     lanes that may have ready runs; in: lines, prelude
blocked                 zset    ids of blocked runs: by name; in: lines, list_runs
blocked:<inc>           zset    the line of a full job, by rank, then id; in: lines, moves
blocked:<inc>:<key>     zset    the line of a full key, by rank, then id; in: lines
running:<inc>           set     running runs of a job; in: claim, delete_job, import_rows, lines, moves, settle
running:<inc>:<key>     set     those of a key; in: claim, import_rows, lines, settle
owned:<node>            hash    running run -> the claim that took it
                                in: bury, claim, import_rows, leave, orphans, prune_nodes, settle, tick
held                    zset    ids of held runs: by name; in: lines, list_runs
held:<inc>              set     those of a job; in: apply, lines, prelude
line:<name>:<lane>      zset    runs that wait for a semaphore, by rank, then id
                                in: lines, turns

semaphores              zset    names: by name; in: delete_semaphore, export_rows, lines, list_semaphores
semaphore:<name>        hash    limit; used: the sum of the weights that are held; granted: the newest token of a
                                program; rate: N/period, in microseconds, or N/period/smooth, and beside it: turn: the
                                lane that is next; woken: units of runs that were woken, kept: no other lane takes any,
                                both up to until
                                in: claim, delete_semaphore, export_rows, lines, put_semaphore, rates, turns
taken:<name>            zset    units that were taken of a rate, by moment: "sum units", the sum with all before them;
                                of a job's rate the part of the name before the @
                                in: delete_semaphore, rates
wakes                   zset    semaphores whose line goes on by itself because of a rate, by when
                                in: delete_semaphore, list_semaphores, prelude, promote, put_semaphore, turns
paced                   set     queues that have a rate; in: claim, import_rows, put_semaphore
holders:<name>          zset    what is held, by since: of a run "run/name", of a program its permit
                                in: claim, delete_semaphore, lines, list_semaphores, turns
lines:<name>            set     lanes that may have runs in line
                                in: lines, turns
programs:<name>         zset    permits of programs that wait, by rank, then id
                                in: acquire, claim, list_semaphores, turns
heavy:<name>            zset    of runs and programs that wait: the weight of those that want more than one unit
                                in: acquire, delete_semaphore, lines, put_semaphore, turns
permit:<id>             hash    what a program holds, or its place in line: semaphore, node_id, weight, rank, since, and
                                token once it is granted
                                in: acquire, list_semaphores, release, turns
permits:<node>          set     those of a program's node
                                in: acquire, turns
awaited                 zset    names of semaphores for which somebody may wait: by name
                                in: acquire, delete_semaphore, lines, tick
swept                   string  where the last tick stopped looking at awaited; in: tick
tokens                  string  the newest token of programs' grants of all semaphores that were deleted: those of one
                                that is made anew begin above it
                                in: delete_semaphore, turns

node:<id>               hash    a node: the columns of a row
                                in: bury, leave, list_nodes, prelude, prune_nodes, register, settle, tick
alive                   zset    living nodes by start; in: bury, leave, list_nodes, register, tick
gone                    zset    those that left or died, by when; in: bury, leave, list_nodes, prune_nodes
dead_owners             set     dead nodes that own runs; in: bury, orphans, settle, tick

pauses                  hash    queue, or * for everything -> a pause, JSON
                                in: add_pause, delete_pause, planning.py, prelude
document:<kind> <name>  hash    text, version
                                in: add_run, delete_document, documents.py, import_rows, list_documents, prelude,
                                    put_document
documents               zset    of each "kind name": by name, so that those of a kind stand together
                                in: add_run, delete_document, import_rows, list_documents, put_document
notices                 channel on which stores notify each other of news; in: connections.py
"""

SCHEMA = 1
"""The number of this layout."""
OLDEST = 1
"""The oldest schema whose programs work on a store with this layout."""
