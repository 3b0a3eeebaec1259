"""The functions of the database, one a file. They lock before they look, so that one call is one statement.

No transaction waits for a client that thinks, or froze. Each statement of a function sees what was committed before it
began, so that what is read after a lock is up to date. Locks are taken in this order: node, gate (the job's row),
semaphores by name, runs by id.

- A node's row: FOR KEY SHARE by what must find it alive, FOR UPDATE by what ends it; its beats disturb neither.
- A gate: FOR KEY SHARE by what adds or claims runs, FOR NO KEY UPDATE by what counts or moves its line, FOR UPDATE by
  pause, edit and delete.
- A semaphore: a transaction that changes a run in its line has locked it. Units are counted under its lock alone.

IS NOT DISTINCT FROM, where = would do, keeps the planner from finding each of many runs by an index of all running
ones, of which it believes there are none.

The texts name each other plainly; `function_set` installs them under names that end with a digest of all of them. Lists
of columns are filled in by `columns`: `{RUN}` are those of a run.
"""
