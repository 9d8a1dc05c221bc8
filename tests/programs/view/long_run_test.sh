#!/usr/bin/env bash
# A run of 100,000 rounds, written through the hub and the SQLite sink, is a report in under two seconds; so is one of 60
# rounds whose 128 environments record half of their steps.
#
# usage: long_run_test.sh PATH_TO_ESPER PATH_TO_MAKE_LONG_RUN ROUNDS SECONDS
set -uo pipefail
# shellcheck disable=SC2034 # script_test.sh reads it
esper=$1
make_long_run=$2
rounds=$3
limit=$4
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1
"$make_long_run" long "$rounds" || fail "the run was not written"
echo "$rounds rounds: $(stat -c %s long/run.db) bytes"
"$make_long_run" wide 60 128 || fail "the run of many environments was not written"
# processor time, which other work on the machine does not stretch as it does the clock's
TIMEFORMAT='%U %S %R'
for command in "report wide" "watch wide" "report long" "watch long"; do
    # shellcheck disable=SC2086 # two words
    { time run 0 $command; } 2> times.txt
    read -r user system clock < times.txt
    echo "esper $command: $user s and $system s of the processor, $clock s by the clock, limit $limit s"
    awk "BEGIN { exit !($user + $system < $limit) }" ||
        fail "esper $command took $user s and $system s of the processor, more than $limit s"
done
expect_part "the terminal" "$out" "round $rounds of $rounds"
expect_part "the run in the report" "$(panel_text long/report.html summary)" \
    " accuracy, last round $(ask_percent long "SELECT accuracy FROM rounds ORDER BY round DESC LIMIT 1") "
# the sums of 512 rounds are those of their rows, and no decision is left out
expect_text "buckets that are not their rows" "$(ask long "WITH summed AS (SELECT (first - 1) / 512 AS bucket,
    sum(n_rows) AS n, sum(accuracy_sum) / sum(accuracy_n) AS mean, max(accuracy_max) AS high FROM summary_round_completed
    GROUP BY 1), direct AS (SELECT (round - 1) / 512 AS bucket, count(*) AS n, avg(accuracy) AS mean, max(accuracy) AS high
    FROM event_round_completed WHERE round <= (SELECT max(last) FROM summary_round_completed) GROUP BY 1)
    SELECT (SELECT count(*) FROM direct) - count(*) FROM summed JOIN direct USING (bucket, n, high)
    WHERE abs(summed.mean - direct.mean) < 1e-9")" 0
expect_text "rounds that are summed up" "$(ask long "SELECT max(last) FROM summary_round_completed")" "$((rounds / 16 * 16))"
expect_text "decisions" "$(ask long "SELECT sum(n_rows) FROM summary_decision_taken WHERE level = 1")" \
    "$(ask long "SELECT count(*) FROM event_decision_taken")"
finish
