#!/usr/bin/env bash
# `esper query`: formats, limits, messages, exit codes; and that docs/telemetry.md is what the program says.
#
# usage: query_test.sh PATH_TO_ESPER PATH_TO_MAKE_SAMPLE_RUN SOURCE_FOLDER
set -uo pipefail
esper=$1 make_sample_run=$2 source=$3
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
query() { run "$1" query "${@:2}"; }

run_folder=$folder/demo
"$make_sample_run" "$run_folder" 3 || fail "no sample run"

# --- formats ---
query 0 "$run_folder" "SELECT seed_id, outcome, contribution FROM seeds ORDER BY seed_id LIMIT 2"
expect_text "table" "$out" "\
seed_id  outcome     contribution
-------  ----------  ------------
a1       fossilized          2.25
b1       pruned                 -"
expect_text "stderr of a table" "$err" ""
query 0 "$run_folder/run.db" "SELECT round, accuracy, rolling_accuracy FROM rounds" --json
expect_text "JSON" "$out" '[
  {"round": 1, "accuracy": 52.5, "rolling_accuracy": null},
  {"round": 2, "accuracy": 54.5, "rolling_accuracy": null},
  {"round": 3, "accuracy": 56.5, "rolling_accuracy": null}
]'
query 0 "$run_folder" --csv "SELECT 'a,b' AS x, '' AS y, NULL AS z, 'say \"hi\"' AS \"a b\", 1e999 AS i, 0.1 AS r"
printf 'x,y,z,a b,i,r\r\n"a,b","",,"say ""hi""",Infinity,0.1\r\n' | cmp -s - "$folder/out" || fail "CSV is $out"
query 0 "$run_folder" --json "SELECT 1 AS i, 2 AS i, -1e999 AS m, char(10, 27, 34) AS t, CAST(x'ff' AS TEXT) AS u"
expect_text "JSON of odd values" "$out" '[
  {"i": 1, "i_2": 2, "m": "-Infinity", "t": "\n\u001b\"", "u": "'$'\xef\xbf\xbd''"}
]'
query 0 "$run_folder" "SELECT config, char(27) || 'x' AS escaped FROM runs"
expect_part "newlines in a table" "$out" '[run]\nkind = grow\n'
[[ $out != *$'\e'* ]] || fail "an escape character reached the terminal"
query 0 "$run_folder" "SELECT 1 WHERE 0" --json
expect_text "no rows" "$out" "[]"
expect_text "no rows" "$err" "esper query: no rows"

# --- limits ---
numbers="WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) SELECT i FROM n"
query 0 "$run_folder" "$numbers"
expect_text "lines" "$(wc -l < "$folder/out")" 102
expect_text "cut" "$err" "esper query: the first 100 rows; --limit 0 shows all"
query 0 "$run_folder" "$numbers" --limit 0
expect_text "lines" "$(wc -l < "$folder/out")" 2502
expect_text "last line" "$(tail -n 1 "$folder/out")" "2500"
expect_text "not cut" "$err" ""
query 0 "$run_folder" "$numbers" --limit 2500 --csv
expect_text "a limit that is just enough" "$err" ""
endless="WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
query 1 "$run_folder" "$endless" --timeout 0.1
expect_text "out of time" "$err" "esper query: the query took more than 0.1 seconds and was stopped"
# a background job of a script ignores SIGINT, so the signal is SIGTERM; both take the same way
"$esper" query "$run_folder" "$endless" > /dev/null 2> "$folder/err" &
child=$!
sleep 0.5
kill -TERM $child
wait $child
expect_text "exit code after a signal" $? 130
expect_text "after a signal" "$(cat "$folder/err")" "esper query: the query was interrupted"

# --- wrong usage and input ---
query 2
expect_part "no run" "$err" "which run? give its folder and a query"
query 2 "$run_folder"
expect_part "no query" "$err" "what to ask? give a query after the run, in quotes"
query 2 "$run_folder" "SELECT 1" extra
expect_part "too much" "$err" 'unexpected argument "extra"'
query 2 "$run_folder" "SELECT 1" --json --csv
expect_part "two formats" "$err" "--json and --csv exclude each other"
query 2 "$folder/nothing" "SELECT 1"
expect_text "no such run" "$err" "esper query: no such run: $folder/nothing: No such file or directory"
mkdir "$folder/empty"
query 2 "$folder/empty" "SELECT 1"
expect_part "no database" "$err" "there is no run.db in this folder"
query 2 "$run_folder" "SELECT * FROM nonsense"
expect_part "no table" "$err" "no such table: nonsense; esper query --views lists what there is"
mkdir "$folder/without"
touch "$folder/without/config.ini" "$folder/without/events.jsonl"
query 2 "$folder/without" "SELECT 1"
expect_part "sqlite=off" "$err" "--telemetry.sqlite=off or --telemetry.level=off; its events are in events.jsonl"
if [[ $(id -u) != 0 ]]; then
    mkdir -m 000 "$folder/closed"
    query 2 "$folder/closed" "SELECT 1"
    expect_part "closed folder" "$err" "cannot look into this folder: Permission denied"
fi
echo "this is a text and no database, whatever its name is" > "$folder/empty/run.db"
query 2 "$folder/empty" "SELECT 1"
expect_part "no database" "$err" "the file is no SQLite database"
query 2 "$run_folder" "SELECT acuracy FROM rounds"
expect_text "wrong column" "$err" "\
esper query: no such column: acuracy; did you mean \"accuracy\"?
  SELECT acuracy FROM rounds
         ^"
query 2 "$run_folder" "DELETE FROM event_metric"
expect_text "writing" "$err" "esper query: DELETE is refused: a run's database is only read here"
query 2 "$run_folder" "SELECT 1; SELECT 2"
expect_part "several statements" "$err" "there is more than one statement; ask them one by one"
query 0 "$run_folder" "SELECT count(*) AS n FROM metrics" --csv
expect_part "nothing was deleted" "$out" "8"

# --- a run that was killed ---
# in a shell of its own, whose "Killed" nobody needs to see
("$make_sample_run" "$folder/killed" 2 --kill; true) > /dev/null 2>&1
[[ -s $folder/killed/run.db-wal ]] || fail "the killed run has left no log"
query 0 "$folder/killed" "SELECT last_round, outcome FROM runs" --csv
expect_text "a killed run" "${out//$'\r'/}" $'last_round,outcome\n2,'

# --- views ---
query 0 --views
expect_part "views" "$out" "seeds: one row per seed"
expect_part "views" "$out" "  rolling_accuracy     mean of the last ten rounds"
query 0 --views --json
expect_part "views" "$out" '{"view": "runs", "column": "run_id", "help": "name of the run folder"}'
mapfile -t views < <("$esper" query --views --csv | tail -n +2 | cut -d, -f1 | sort -u)
((${#views[@]} >= 12)) || fail "only ${#views[@]} views"
for view in "${views[@]}"; do
    query 0 "$run_folder" "SELECT * FROM $view"
    [[ $err == "" ]] || fail "$view: $err"
    expect_part "help of query" "$("$esper" query --help)" "$view"
done

# --- the documentation ---
"$source/tools/describe_telemetry" "$esper" --check || fail "docs/telemetry.md is not what the program says"
n_examples=0
while IFS= read -r -d '' example; do
    query 0 "$run_folder" "$example"
    n_examples=$((n_examples + 1))
done < <(awk '/^```sql$/ { is_inside = 1; next } /^```$/ { if (is_inside) printf "%c", 0; is_inside = 0 }
              is_inside' "$source/docs/telemetry.md")
((n_examples >= 8)) || fail "only $n_examples examples in docs/telemetry.md"
if command -v python3 > /dev/null; then
    "$esper" query "$run_folder" "SELECT * FROM raw_events" --json --limit 0 | python3 -m json.tool > /dev/null \
        || fail "raw_events as JSON is not JSON"
else
    echo "no python3: JSON not parsed"
fi

finish
