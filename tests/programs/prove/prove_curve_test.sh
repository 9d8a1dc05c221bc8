#!/usr/bin/env bash
# `esper prove curve`: proofs against expansions, the same for any number of threads, and what is refused.
#
# usage: prove_curve_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1

run 0 prove curve --help
expect_part "help" "$out" "--min-depth N"

# --- a graph where the searches are known: p(a,d) by its rule, then q(a,b), which leaves q(b,d), a fact; p(d,a) by nothing ---
mkdir kg
printf 'q(a,b).\nq(b,d).\nq(c,c).\n' > kg/train.txt
printf 'r1:1:q(x,y), q(y,z) -> p(x,z)\n' > kg/rules.txt
printf 'p(a,d).\np(d,a).\n' > kg/test.txt
run 0 prove curve --data kg --min-depth 1 --nodes 5 --threads 1
expect_part "queries" "$out" "kg: 1 query of the split test that takes 1 to 4 steps, best first"
expect_part "budget too small" "$out" "             1           0          0"
expect_part "budget" "$out" "             2           1          1"
expect_part "share" "$out" " 100 %        1          2          2"
run 0 prove curve --data kg --min-depth 1 --nodes 1
expect_part "not reached" "$out" " 100 %        1          -          -"

# --- a policy against fresh weights ---
run 0 prove train --generated 60 --envs 16 --steps 8 --policy.embed=8 --policy.hidden=16 --policy.layers=1 --rounds 2 \
    --validate.every=0 --eval -1 --seed 5 --quiet --out run
arguments=(prove curve --generated 60 --min-depth 2 --max-depth 3 --policy run/policy.safetensors --policy-seed 5)
run 0 "${arguments[@]}"
expect_part "arms" "$out" "trained  untrained    uniform    breadth   ratio"
expect_part "ratio" "$out" "ratio: the better of uniform and breadth over trained"
# the line of all proofs: the ratio is that of the last two columns' lesser over the first
read -r _ _ _ trained _ uniform breadth ratio < <(grep '100 %' <<< "$out" | tail -n 1)
expect_text "ratio" "$ratio" "$(awk -v t="$trained" -v u="$uniform" -v b="$breadth" 'BEGIN { printf "%.2f", (u < b ? u : b) / t }')"
run 0 "${arguments[@]}" --threads 1 --json
one=${out/\"seconds\"*/}
for key in trained untrained uniform breadth limits spent expanded shares; do
    expect_part "JSON" "$one" "\"$key\": "
done
run 0 "${arguments[@]}" --threads 2 --json
expect_text "two threads" "${out/\"seconds\"*/}" "$one"

# values in the order of states
expect_part "no weight" "$out" '"value_weight": 0.0'
run 0 "${arguments[@]}" --value-weight 2 --json
expect_part "weight" "$out" '"value_weight": 2.0'
run 0 "${arguments[@]}" --value-weight 2
expect_part "weight" "$(head -1 <<< "$out")" ", at most 6 atoms, states ordered by values, weight 2"
run 2 prove curve --generated 60 --min-depth 2 --value-weight 2
expect_part "no policy" "$err" "--value-weight needs --policy"

# weights that have not learned are those of the seed: both arms are the same
run 0 prove train --generated 60 --envs 16 --steps 8 --policy.embed=8 --policy.hidden=16 --policy.layers=1 --rounds 1 --rate 0 \
    --validate.every=0 --eval -1 --seed 5 --quiet --out still
run 0 prove curve --generated 60 --min-depth 2 --max-depth 3 --policy still/policy.safetensors --policy-seed 5
read -r _ _ _ trained untrained _ < <(grep '100 %' <<< "$out" | head -1)
expect_text "the same weights" "$untrained" "$trained"

# --- what is refused ---
run 2 prove curve --data kg --split valid
expect_part "no queries" "$err" "kg has no queries in the split valid that take 3 to 4 steps"
for action in curve depths eval; do
    run 2 prove $action --data kg --split none
    expect_part "$action" "$err" '--split is "none", not one of train, valid, test'
    run 2 prove $action --data kg --selection none
    expect_part "$action" "$err" '--selection is "none", not one of constrained, leftmost'
done
# what is taken gets where it belongs
for action in depths eval; do
    run 0 prove $action --generated 60 --split valid --selection leftmost --max-depth 2 --json
    expect_part "$action" "$out" '"split": "valid"'
    expect_part "$action" "$out" '"selection": "leftmost"'
done
run 0 prove curve --generated 60 --split valid --selection leftmost --min-depth 2 --max-depth 2
expect_part "curve" "$out" "queries of the split valid that take 2 to 2 steps, best first, leftmost goals"
run 2 prove curve --generated 70 --policy run/policy.safetensors
expect_part "another graph" "$err" "was trained on another graph"
expect_part "another graph" "$err" "[policy] encoder = structure trains one for any graph"
run 2 prove curve --data kg --min-depth 1 --policy run/policy.safetensors
expect_part "another graph of files" "$err" "[policy] encoder = structure trains one for any graph"

# --- a policy by structure acts on other graphs, with the same predicates and with others ---
run 0 prove train --generated 60 --envs 16 --steps 8 --policy.embed=8 --policy.hidden=16 --policy.layers=1 --rounds 2 \
    --policy.encoder=structure --validate.every=0 --eval -1 --seed 5 --quiet --out any
run 0 prove curve --generated 70 --graph-seed 4 --min-depth 2 --policy any/policy.safetensors --json
expect_part "another village" "$out" '"trained": '
run 0 prove curve --data kg --min-depth 1 --policy any/policy.safetensors
expect_part "another graph" "$out" " 100 %        1          2          2"
finish
