#!/usr/bin/env bash
# stdout or stderr that is closed, has no reader or no room, and files that may not grow. A run goes on, is saved and ends with
# 3; a command that prints ends with 0 when its reader is gone and with 1 when there is no room.
#
# usage: closed_streams_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"

# descriptor 8 writes into a pipe without a reader
mkfifo "$folder/pipe"
exec 9<> "$folder/pipe"
exec 8> "$folder/pipe"
exec 9<&-

expect_code() { # what actual expected
    [[ $2 == "$3" ]] || fail "$1: exit code $2, expected $3"
}

# --- runs ---
hosts=(hosts --task tiny --envs 2 --rounds 2 --threads 1)
grow=(grow --task tiny --envs 2 --rounds 2 --episode-steps 6 --step-batches 1 --validation-images 50 --policy random --eval 0
    --threads 1)
# shellcheck disable=SC2034 # read through the name reference below
fit=(fit --data tiny --candidates 2 --epochs 2 --epoch-batches 2 --max-params 4000 --threads 1)
prove=(prove train --generated 60 --rounds 2 --envs 8 --steps 4 --eval 4 --nodes 8 --eval-every 0 --threads 1)

# hosts with every kind of loss, the others with some: the checkpoint is that of a run that was seen by somebody
lose() { # name, more arguments; the caller bends the streams
    "$esper" "${command[@]}" --out "$folder/$kind-$1" "${@:2}"
}
compare() { # names
    local name
    for name in "$@"; do
        diff -r "$folder/$kind-seen/checkpoints/2" "$folder/$kind-$name/checkpoints/2" > /dev/null ||
            fail "$kind: $name has another checkpoint"
        expect_text "$kind, $name: rows" "$(ask "$folder/$kind-$name" "select count(*) from rounds")" 2
        cmp "$folder/$kind-seen/config.ini" "$folder/$kind-$name/config.ini" || fail "$kind, $name: another config.ini"
    done
}
for kind in hosts grow fit prove; do
    declare -n command=$kind
    run 0 "${command[@]}" --out "$folder/$kind-seen"
    lose no-reader >&8 2> "$folder/err"
    expect_code "$kind, stdout without a reader" $? 3
    expect_part "$kind, stdout without a reader" "$(cat "$folder/err")" "cannot write the "
    lose json --json >&8 2>&8
    expect_code "$kind --json, streams without a reader" $? 3
    lose all <&- >&- 2>&-
    expect_code "$kind, all closed" $? 3
    compare no-reader json all
done
kind=hosts
declare -n command=hosts
lose no-listener 2>&8 > "$folder/out"
expect_code "stderr without a reader" $? 3
lose closed >&- 2> "$folder/err"
expect_code "stdout closed" $? 3
lose silent 2>&- > "$folder/out"
expect_code "stderr closed" $? 3
lose quiet --quiet 2>&- > "$folder/out"
expect_code "--quiet, stderr closed" $? 3
lose full > /dev/full 2> "$folder/err"
expect_code "no room on stdout" $? 3
expect_part "no room on stdout" "$(cat "$folder/err")" "No space left on device; the run itself is in its folder"
compare no-listener closed silent quiet full

# --- commands that print ---
printing() { # code of the command, then its arguments
    local expected=$1 what="${*:2}" code
    shift
    "$esper" "$@" >&8 2> "$folder/err"
    code=$?
    expect_code "esper ${what:0:60} without a reader" $code "$expected"
    [[ $expected != 0 || ! -s $folder/err ]] || fail "esper ${what:0:60} without a reader says $(cat "$folder/err")"
    ((expected == 0)) || return
    "$esper" "$@" > /dev/full 2> "$folder/err"
    expect_code "esper ${what:0:60} without room" $? 1
    expect_part "esper ${what:0:60} without room" "$(cat "$folder/err")" "cannot write the "
    "$esper" "$@" >&- 2> "$folder/err"
    expect_code "esper ${what:0:60}, stdout closed" $? 1
}
a=$folder/hosts-seen
printing 0 --help
printing 0 --version
printing 0 info
printing 0 info --json
printing 0 info --telemetry
printing 0 hosts --help
printing 0 "${hosts[@]}" --dry-run
printing 0 "${grow[@]}" --dry-run
printing 0 "${prove[@]}" --dry-run
printing 0 runs "$folder"
printing 0 runs "$folder" --json
printing 0 query --views
printing 0 query "$a" "select * from rounds"
printing 0 query "$a" "select * from rounds" --json
printing 0 query "$a" "select * from rounds" --csv
printing 0 diff "$a" "$folder/hosts-full"
printing 0 diff "$a" "$folder/hosts-full" --json
printing 0 prove query --generated 60 "cousin(X, Y)"
printing 0 prove query --generated 60 "cousin(X, Y)" --json
printing 0 prove mine --generated 60
printing 0 prove closure --generated 60
printing 0 bench --list
# what else is wrong is still told
printing 2 query "$a" "select nonsense"
printing 2 query "$folder/nothing" "select 1"
printing 2 hosts --nonsense
# rows without an end: the query stops when nobody reads any more
endless="with recursive n(x) as (select 1 union all select x + 1 from n) select x from n"
for format in "" --json --csv; do
    # shellcheck disable=SC2086
    timeout 30 "$esper" query "$a" "$endless" --limit 0 --timeout 0 $format 2> "$folder/err" | head -3 > "$folder/out"
    code=${PIPESTATUS[0]}
    expect_code "endless query $format" "$code" 0
    [[ ! -s $folder/err ]] || fail "endless query $format says $(cat "$folder/err")"
    expect_text "endless query $format: lines" "$(wc -l < "$folder/out")" 3
done

# --- files that may not grow are a full disk, not the end of the process (units of 1024 bytes) ---
(
    ulimit -f 10
    exec "$esper" "${hosts[@]}" --envs 8 --out "$folder/small" --telemetry.level=off > "$folder/out" 2> "$folder/err"
)
expect_code "checkpoints beyond the limit of file sizes" $? 1
expect_part "checkpoints beyond the limit" "$(cat "$folder/err")" "round 2 could not be saved"
expect_part "checkpoints beyond the limit" "$(cat "$folder/err")" "File too large"
# room for checkpoints, none for a long file of events; rounds of a few rows, because there are many
awk -v OFS=, 'BEGIN { for (i = 0; i < 40; i++) print i % 7, i % 5, "class" i % 2 }' > "$folder/table.csv"
rows=(hosts --task dense --data "$folder/table.csv" --envs 2 --rounds 200 --threads 1)
(
    ulimit -f 60
    exec "$esper" "${rows[@]}" --out "$folder/long" --telemetry.sqlite=off --telemetry.jsonl=on --telemetry.level=debug \
        --quiet > "$folder/out" 2> "$folder/err"
)
expect_code "events beyond the limit of file sizes" $? 3
expect_part "events beyond the limit" "$(cat "$folder/err")" "jsonl lost"
[[ -e $folder/long/checkpoints/200/DONE ]] || fail "a file of events without room stopped the run"
(
    ulimit -f 500
    exec "$esper" "${rows[@]}" --out "$folder/long-database" --telemetry.tensorboard=off --telemetry.level=debug \
        --quiet > "$folder/out" 2> "$folder/err"
)
expect_code "a database beyond the limit of file sizes" $? 3
expect_part "a database beyond the limit" "$(cat "$folder/err")" "sqlite lost"
[[ -e $folder/long-database/checkpoints/200/DONE ]] || fail "a database without room stopped the run"

finish
