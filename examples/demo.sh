#!/bin/sh
# Four example jobs, and a node that runs them: what `make run` starts. All state is in ./.tokimori/.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
state="$PWD/.tokimori"
export TOKIMORI_STORE="sqlite://$state/tokimori.db" TOKIMORI_STATE_DIR="$state"

if [ ! -e "$state/tokimori.db" ]; then
    mkdir -p -m 700 "$state"
    tokimori db migrate
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

Example jobs are in $state; the page's address is printed below. Ctrl-C stops. To try next, in another terminal:

  cd $PWD && export PATH="$PWD/.venv/bin:\$PATH" TOKIMORI_STORE=$TOKIMORI_STORE TOKIMORI_STATE_DIR=$state
  tokimori job list                    what there is to run
  tokimori job next report             when it runs next
  tokimori run list                    what became of it
  tokimori job trigger long            run one now, then: tokimori run logs -f RUN-ID
  tokimori job add hello --schedule "every 10 seconds" --command 'echo hello'

TEXT
exec tokimori serve
