#!/usr/bin/env bash
# `esper prove closure`: the table, JSON, and what is refused.
#
# usage: prove_closure_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
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
for threads in 1 3; do
    run 0 prove closure --data kg --threads $threads --out all.txt
    expect_part "table" "$out" "closure         6"
    expect_text "all atoms" "$(sort all.txt)" "p(a,b).
p(a,c).
p(a,d).
p(b,c).
p(b,d).
p(c,d)."
done
run 0 prove closure --data kg --out /dev/stdout
expect_text "atoms alone" "$(sort <<< "$out")" "$(sort all.txt)"
run 1 prove closure --data kg --out nowhere/all.txt
expect_part "no folder" "$err" "nowhere"
run 0 prove closure --data kg --limit 5 --json
expect_part "limit" "$err" "warning: stopped at 5 atoms; the counts are lower bounds"
expect_part "limit" "$out" '"complete": false'

# --- rules that cannot be used, for a slip in the second; q has a rule ---
printf '%s\n' 'r1:1:p(x,y) -> q(x,y)' 'r2:1:q(x,y), pp(y,z) -> p(x,z)' 'r3:1:p(x,y), q(y,z) -> p(x,z)' > kg/slip.txt
run 0 prove closure --data kg --rules slip.txt
expect_part "a slip" "$err" 'kg/slip.txt: 1 rule can never be used, for a predicate of the body that is in no fact and heads no rule; the first is in line 2, with "pp"'
expect_text "lines of warnings" "$(wc -l <<< "$err")" 1
echo 'r4:1:pq(y,x) -> a(x,y)' >> kg/slip.txt
run 0 prove closure --data kg --rules slip.txt
expect_part "two slips" "$err" 'kg/slip.txt: 2 rules can never be used'
expect_part "two slips" "$err" 'the first is in line 2, with "pp"'
printf 'pp(b,c).\n' >> kg/train.txt
printf 'pq(b,c) 1 1\n' > soft.txt
run 0 prove closure --data kg --rules slip.txt --soft soft.txt
[[ $err != *"never be used"* ]] || fail "rules that facts and soft facts serve are called useless: $err"
printf 'p(a,b).\nh(X,Y) :- p(X,Y).\nh(X,Y) :- pp(X,Y).\n' > slip.pl
run 0 prove closure --data slip.pl
expect_part "Prolog" "$err" 'slip.pl: 1 rule can never be used'
expect_part "Prolog" "$err" 'the first is in line 3, with "pp"'
# with a file of rules beside it the line says of which; what is read first comes first
printf 'r1:1:pq(x,y) -> a(x,y)\n' > more.txt
run 0 prove closure --data slip.pl --rules more.txt
expect_part "both files" "$err" 'slip.pl and ./more.txt: 2 rules can never be used'
expect_part "both files" "$err" 'the first is in line 3 of slip.pl, with "pp"'
printf 'p(a,b).\nh(X,Y) :- p(X,Y).\n' > right.pl
run 0 prove closure --data right.pl --rules more.txt
expect_part "the second file" "$err" 'right.pl and ./more.txt: 1 rule can never be used'
expect_part "the second file" "$err" 'the first is in line 1 of ./more.txt, with "pq"'

# --- what is refused ---
run 2 prove closure --data kg --generated 10
expect_part "both" "$err" "--data and --generated exclude each other"
run 2 prove closure --rules x.txt
expect_part "rules alone" "$err" "--rules goes with --data"
run 2 prove closure --generated 1
expect_part "too small" "$err" "a generated graph has 2 to 1000000 people, not 1"
run 2 prove closure --data nowhere
expect_part "no folder" "$err" "esper prove closure: nowhere: No such file or directory"
printf 'r1:1:p(x,y) -> p(x,z)\n' > kg/rules.txt
run 2 prove closure --data kg
expect_text "a bad rule" "$err" \
    'esper prove closure: kg/rules.txt:1:20: the variable "z" of the head is not in the body'
finish
