#!/usr/bin/env bash
# `esper prove closure`: the table, JSON, and what is refused.
#
# usage: prove_closure_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../programs/script_test.sh"
cd "$folder" || exit 1

# --- help ---
run 0 prove --help
expect_part "help" "$out" "closure"
run 0 prove closure --help
expect_part "help of closure" "$out" "--generated N"
run 2 prove
expect_part "no action" "$err" "usage: esper prove ACTION"
run 2 prove closur
expect_part "a slip" "$err" 'esper prove: unknown action "closur"; did you mean "closure"?'
run 2 prove --json closure
expect_part "options first" "$err" "the action comes first"

# --- a generated graph, the same each time ---
run 0 prove closure --generated 200 --json
first=$out
expect_part "JSON" "$out" '"constants": 200'
expect_part "JSON" "$out" '"complete": true'
for key in facts closure valid_in_closure test_in_closure; do
    expect_part "JSON" "$out" "\"$key\": "
done
run 0 prove closure --generated=200 --seed 1 --json
expect_text "the same again" "$out" "$first"
run 0 prove closure --generated 200 --seed 2 --json
[[ $out != "$first" ]] || fail "another seed gives the same graph"
second=$out
run 0 prove closure --generated 200 --graph-seed 2 --json
expect_text "--graph-seed, as prove train has it" "$out" "$second"
run 0 prove closure
expect_part "without options" "$out" "generated: constants 1000, predicates 15, rules 53"

# --- a folder ---
mkdir kg
printf 'p(a,b).\np(b,c).\np(c,d).\n' > kg/train.txt
printf 'r1:1:p(x,y), p(y,z) -> p(x,z)\n' > kg/rules.txt
printf 'p(a,d).\np(d,a).\np(a,b).\n' > kg/test.txt
run 0 prove closure --data kg
expect_text "stderr" "$err" ""
expect_text "table" "$out" "kg: constants 4, predicates 1, rules 1
facts           3
closure         6
valid           0 queries, 0 in the closure (0.0 %), 0 of them facts
test            3 queries, 2 in the closure (66.7 %), 1 of them facts"
run 0 prove closure --data kg --limit 5 --json
expect_part "limit" "$err" "warning: stopped at 5 atoms; the counts are lower bounds"
expect_part "limit" "$out" '"complete": false'

# --- what is refused ---
run 2 prove closure --data kg --generated 10
expect_part "both" "$err" "--data and --generated exclude each other"
run 2 prove closure --rules x.txt
expect_part "rules alone" "$err" "--rules goes with --data"
run 2 prove closure --generated 1
expect_part "too small" "$err" "a generated graph of 1 people, expected 2 to 1000000"
run 2 prove closure --data nowhere
expect_part "no folder" "$err" "esper prove closure: nowhere: No such file or directory"
printf 'r1:1:p(x,y) -> p(x,z)\n' > kg/rules.txt
run 2 prove closure --data kg
expect_text "a bad rule" "$err" \
    'esper prove closure: kg/rules.txt:1:20: the variable "z" of the head is not in the body'
finish
