#!/bin/sh
# Makes deploy/.env with the secrets of compose.yaml, for its owner alone. What is there stays.
set -eu
umask 077
file=$(dirname "$0")/../.env
[ ! -s "$file" ] || exit 0
made() { # a secret of 43 letters and digits
    head -c 512 /dev/urandom | base64 | tr -dc 'A-Za-z0-9' | cut -c 1-43
}
printf 'TOKIMORI_HTTP_SECRET=%s\nPOSTGRES_PASSWORD=%s\nGRAFANA_PASSWORD=%s\n' "$(made)" "$(made)" "$(made)" > "$file"
