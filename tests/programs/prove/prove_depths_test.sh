#!/usr/bin/env bash
# `esper prove depths`: the table, JSON, both selections, limits, a published graph, and what is refused.
#
# usage: prove_depths_test.sh PATH_TO_ESPER
# With ES_KG_DIR the test queries of family are compared with the figures of docs/proving.md.
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1

# "depth:count ..." of the object `histogram` in $out, in its order
histogram() {
    sed -n '/"histogram": {/,/}/p' <<< "$out" | grep -o '"-\?[0-9]*": [0-9]*' | tr -d '" ' | paste -sd ' '
}

# a whole number of $out by its key
number() {
    sed -n "s/^ *\"$1\": \(-\?[0-9]*\),\?\$/\1/p" <<< "$out"
}

# the table without its last line, which has a time
table() {
    sed '$d' <<< "$out"
}

run 0 prove --help
expect_part "help" "$out" "depths"
run 0 prove depths --help
expect_part "help of depths" "$out" "--max-states N"

# --- a graph whose depths are known ---
# p(a,b) and p(b,c) by the first rule; p(c,a) by the second and the fact p(d,a), which does not prove itself; one link more of
# a chain takes two steps
mkdir kg
printf 'q(a,b).\nq(b,c).\nq(c,d).\np(d,a).\n' > kg/train.txt
printf 'r1:1:q(x,y) -> p(x,y)\nr2:1:q(x,z), p(z,y) -> p(x,y)\n' > kg/rules.txt
printf 'p(a,b).\np(b,c).\np(c,a).\np(a,c).\np(a,d).\np(d,a).\n' > kg/test.txt
run 0 prove depths --data kg --max-depth 10
expect_text "stderr" "$err" ""
expect_text "table" "$(table)" "kg: 6 queries of the split test, constrained goals, at most 10 steps and 6 atoms
  depth   queries
      1         2    33.3 %
      2         1    16.7 %
      3         1    16.7 %
      5         1    16.7 %
   none         1    16.7 %"
expect_part "last line" "$out" " states kept, "
expect_part "last line" "$out" " expanded, 0 dropped for the limit on atoms; "
for selection in constrained leftmost; do
    run 0 prove depths --data kg --max-depth 10 --selection $selection --json
    expect_text "histogram, $selection" "$(histogram)" "-1:1 1:2 2:1 3:1 5:1"
    expect_part "JSON" "$out" "\"selection\": \"$selection\""
done
for part in '"data": "kg"' '"split": "test"' '"max_depth": 10' '"max_atoms": 6' '"max_states": 4000000' '"queries": 6' '"proved": 5' \
    '"unproved": 1' '"unknown": 0' '"overlong": 0' '"seconds": '; do
    expect_part "JSON" "$out" "$part"
done
# none of the facts q can be derived, and p(d,a) only from itself
run 0 prove depths --data kg --split train --json
expect_text "facts" "$(histogram)" "-1:4"

# --- limits ---
run 0 prove depths --data kg --max-depth 4 --json
expect_text "four steps" "$(histogram)" "-1:2 1:2 2:1 3:1"
run 0 prove depths --data kg --max-atoms 1 --json
expect_text "one atom" "$(histogram)" "-1:4 1:2"
expect_text "dropped for it" "$(number overlong)" 4
run 0 prove depths --data kg --max-depth 10 --max-states 1
expect_text "a warning" "$err" "warning: 4 of 6 queries met the limit of 1 state and stay undecided (--max-states raises it)"
expect_text "undecided" "$(table)" "kg: 6 queries of the split test, constrained goals, at most 10 steps and 6 atoms
  depth   queries
      1         2    33.3 %
   none         0     0.0 %
unknown         4    66.7 %"
run 0 prove depths --data kg --max-depth 10 --max-states 1 --json
expect_text "undecided is not unprovable" "$(histogram)" "1:2"
expect_text "undecided" "$(number proved) $(number unproved) $(number unknown)" "2 0 4"

# --- a generated graph ---
run 0 prove depths --generated 200 --threads 1
expect_text "table" "$(table)" "generated: 641 queries of the split test, constrained goals, at most 4 steps and 6 atoms
  depth   queries
      1       110    17.2 %
      2       391    61.0 %
      3        17     2.7 %
      4        72    11.2 %
   none        51     8.0 %"
run 0 prove depths --generated 200 --threads 1 --json
expect_text "constrained" "$(histogram)" "-1:51 1:110 2:391 3:17 4:72"
one=${out/\"seconds\"*/}
run 0 prove depths --generated=200 --seed 1 --split test --selection constrained --threads 3 --json
expect_text "three threads" "${out/\"seconds\"*/}" "$one"
run 0 prove depths --generated 200 --selection leftmost --json
expect_text "leftmost" "$(histogram)" "-1:50 1:110 2:391 3:19 4:71"
run 0 prove depths --generated 200 --split valid --json
expect_text "another split" "$(number queries)" 281
run 0 prove depths --generated 200 --max-states 3 --json
expect_part "undecided" "$err" "of 641 queries met the limit of 3 states"
[[ $(number unknown) -gt 100 ]] || fail "three states leave $(number unknown) queries undecided"
[[ $(histogram) != *-1:* ]] || fail "three states are enough to say that there is no proof: $(histogram)"
expect_text "every query is counted" "$(($(number proved) + $(number unproved) + $(number unknown)))" 641
# with steps enough all that follows is proved
run 0 prove closure --generated 200 --json
closed=$(number test_in_closure)
run 0 prove depths --generated 200 --max-depth 8 --json
expect_text "proved in eight steps" "$(number proved)" "$closed"

# --- a published graph ---
if [[ -n ${ES_KG_DIR:-} ]]; then
    run 0 prove depths --data "$ES_KG_DIR/family" --split test --max-depth 4 --max-atoms 6
    expect_text "family" "$(table)" "$ES_KG_DIR/family: 5626 queries of the split test, constrained goals, at most 4 steps and 6 atoms
  depth   queries
      1       318     5.7 %
      2      4823    85.7 %
      3        82     1.5 %
      4       168     3.0 %
   none       235     4.2 %"
    run 0 prove depths --data "$ES_KG_DIR/family" --split test --max-depth 4 --max-atoms 6 --selection leftmost --json
    expect_text "family, leftmost" "$(histogram)" "-1:235 1:318 2:4823 3:128 4:122"
else
    echo "ES_KG_DIR is not set: no published graph"
fi

# --- what is refused ---
run 2 prove depths --data kg --split valid
expect_text "no such queries" "$err" "esper prove depths: kg has no queries in the split valid"
run 2 prove depths --data kg --split vali
expect_part "a slip" "$err" 'esper prove depths: --split is "vali", not one of train, valid, test'
run 2 prove depths --data kg --selection rightmost
expect_part "selection" "$err" '--selection is "rightmost", not one of constrained, leftmost'
run 2 prove depths --data kg --max-depth 0
expect_part "depth" "$err" "--max-depth: 0 is outside 1..1000"
run 2 prove depths --data kg --max-atoms 21
expect_part "atoms" "$err" "--max-atoms: 21 is outside 1..20"
run 2 prove depths --data kg --max-states 0
expect_part "states" "$err" "--max-states: 0 is outside 1.."
run 2 prove depths --data nowhere
expect_part "no folder" "$err" "esper prove depths: nowhere: No such file or directory"
finish
