#!/bin/sh
# Adds four example jobs and starts a node that runs them, for `make run`. All state is in ./.tokimori/.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
export TOKIMORI_STATE_DIR="$PWD/.tokimori" TOKIMORI_STORE="sqlite://$PWD/.tokimori/tokimori.db"

if [ ! -e "$TOKIMORI_STATE_DIR/tokimori.db" ]; then
    mkdir -p -m 700 "$TOKIMORI_STATE_DIR"
    tokimori db migrate >/dev/null
    tokimori job add heartbeat --schedule "every 5 seconds" --description "Shows that time goes on" \
        --command 'echo "still here: run $TOKIMORI_RUN_ID, due $TOKIMORI_DUE_TIME"'
    tokimori job add report --schedule "* * * * *" --description "A line a minute" \
        --command 'uptime; df -h .'
    tokimori job add flaky --schedule "*/2 * * * *" --attempts 3 --retry-delay 5 \
        --description "Fails twice, then succeeds" \
        --command 'echo "attempt $TOKIMORI_ATTEMPT of 3"; test "$TOKIMORI_ATTEMPT" -ge 3'
    tokimori job add long --schedule "*/3 * * * *" --description "Counts for 40 seconds; follow its output" \
        --command 'for i in $(seq 40); do echo "$i of 40"; sleep 1; done'
fi

cat <<TEXT

The jobs are in $TOKIMORI_STATE_DIR. The address of the page is printed below; Ctrl-C stops the node. Try in another terminal:

  export PATH="$PWD/.venv/bin:\$PATH" TOKIMORI_STATE_DIR="$TOKIMORI_STATE_DIR" TOKIMORI_STORE="$TOKIMORI_STORE"

  tokimori node address            the page's address again, with the secret that lets you in
  tokimori job list                all jobs
  tokimori job next report         when a job runs next
  tokimori run list                what has run
  tokimori job trigger long        run a job now; then, with the id that this prints:
  tokimori run logs -f RUN         follow what it writes
  tokimori job add hello --schedule "every 10 seconds" --command 'echo hello'

TEXT
exec tokimori serve
