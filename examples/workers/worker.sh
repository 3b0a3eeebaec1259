#!/bin/sh
# A worker in shell and curl: it takes runs of jobs with `function = "shout"`, and answers their payload in capitals.
#
#   tokimori serve &
#   tokimori job add shout --function shout
#   tokimori node address --header > header      # the line that lets you in; keep it to yourself (umask 077)
#   sh worker.sh http://127.0.0.1:8000 header
#
# It needs curl and jq. Without a heartbeat for 30 s a run is given to somebody else.
set -eu
api="$1/api/v2/claims"
header="$2"

ask() { # ask PATH JSON: what the node answers; fails where that is an error, which is on stderr then
    curl --silent --show-error --fail-with-body --max-time 40 -H "@$header" -H "Content-Type: application/json" -d "$2" "$api$1"
}

work() { # what this worker is for
    printf %s "$1" | tr '[:lower:]' '[:upper:]'
}

while :; do
    claimed=$(ask "" '{"types": ["shout"], "wait": 20, "alive_time": 30, "worker": "worker.sh"}') || {
        echo "no work: $claimed" >&2
        sleep 2
        continue
    }
    [ "$claimed" = "[]" ] && continue
    run=$(printf %s "$claimed" | jq -r '.[0].run_id')
    token=$(printf %s "$claimed" | jq '.[0].token')
    payload=$(printf %s "$claimed" | jq -r '.[0].payload // ""')

    # Beside the work: say every 10 s that it lives. A heartbeat that is refused means that the run is somebody else's.
    (while sleep 10; do ask "/$run/heartbeat" "{\"token\": $token}" >/dev/null || exit; done) &
    beats=$!
    if result=$(work "$payload"); then
        said=finish body=$(jq -n --argjson token "$token" --arg result "$result" '{token: $token, result: $result}')
    else
        said=fail body=$(jq -n --argjson token "$token" --arg error "exit code $?" '{token: $token, error: $error}')
    fi
    kill "$beats" 2>/dev/null || :
    ask "/$run/$said" "$body" || echo "its end changed nothing" >&2
    echo
done
