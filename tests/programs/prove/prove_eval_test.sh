#!/usr/bin/env bash
# `esper prove eval`: the table, JSON, the same for any number of threads, and what is refused.
#
# usage: prove_eval_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1

run 0 prove --help
expect_part "help" "$out" "eval"
run 0 prove eval --help
expect_part "help of eval" "$out" "--corruptions N"
for action in depths eval query; do
    run 0 prove $action --help
    expect_part "$action: what --max-states may cost" "$(grep -e --max-states <<< "$out")" "kB each"
done

# --- a graph where the ranks are known: p(a,d) has a proof, its corruptions have none ---
mkdir kg
printf 'q(a,b).\nq(b,d).\nq(c,c).\n' > kg/train.txt
printf 'r1:1:q(x,y), q(y,z) -> p(x,z)\n' > kg/rules.txt
printf 'p(a,d).\np(d,a).\n' > kg/test.txt
run 0 prove eval --data kg --queries 1 --corruptions 0 --threads 1
expect_text "stderr" "$err" ""
expect_text "table" "$(head -3 <<< "$out")" \
    "kg: 1 query of the split test against all corruptions a side, score proved by prover, constrained goals, at most 4 steps and 6 atoms
                             queries   MRR    95 %         H@1    H@3    H@10     proved  negatives
all                                1   1.000  -            1.000  1.000  1.000   100.0 %    0.00 %"
run 0 prove eval --data kg --corruptions 1 --max-depth 1 --max-atoms 1
expect_part "one of each" "$out" "kg: 2 queries of the split test against 1 corruption a side, "
expect_part "one of each" "$out" ", at most 1 step and 1 atom"
run 0 prove depths --data kg --max-depth 1
expect_part "one step" "$out" "kg: 2 queries of the split test, constrained goals, at most 1 step and 6 atoms"
run 0 prove eval --data kg --corruptions 0 --by-predicate
expect_part "depths" "$out" "none up to 4                       1   0.521"
expect_part "predicates" "$out" "p                                  2   0.760"
# three corruptions of either side tie with p(d,a): (1 + 1/2 + 1/3 + 1/4) / 4
run 0 prove eval --data kg --corruptions 0 --json
expect_part "JSON" "$out" '"mrr": 0.760417'
expect_part "JSON" "$out" '"negatives": 12'
for key in settings all sides by_depth by_predicate work seconds; do
    expect_part "JSON" "$out" "\"$key\": "
done
run 0 prove eval --data kg --sides tail --queries 1 --json
[[ $out != *'"head"'* ]] || fail "--sides tail ranks heads"

# --- the same figures for any number of threads, and for every search ---
for search in prover breadth best_first beam greedy sampled; do
    score=probability
    [[ $search == prover ]] && score=shortest
    arguments=(--generated 200 --queries 40 --spaced --corruptions 20 --search "$search" --score "$score"
        --max-depth 3 --nodes 200 --json)
    run 0 prove eval "${arguments[@]}" --threads 1
    first=$(grep -v '"seconds"' <<< "$out")
    run 0 prove eval "${arguments[@]}" --threads 2
    expect_text "$search on two threads" "$(grep -v '"seconds"' <<< "$out")" "$first"
    expect_part "$search" "$first" "\"search\": \"$search\""
done
run 0 prove eval --generated 200 --queries 10 --search best_first --score evidence --json
expect_part "evidence" "$out" '"score": "evidence"'
run 0 prove eval "${arguments[@]}" --draw-seed 1
[[ $(grep -v '"seconds"' <<< "$out") != "$first" ]] || fail "another seed gives the same negatives"

# --- values of a policy in the order of states ---
run 0 prove train --generated 60 --envs 16 --steps 8 --policy.embed=8 --policy.hidden=16 --policy.layers=1 --rounds 2 \
    --validate.every=0 --eval -1 --quiet --out run
guided=(prove eval --generated 60 --queries 6 --corruptions 3 --max-depth 3 --search best_first --policy run/policy.safetensors)
run 0 "${guided[@]}"
[[ $out != *"ordered by values"* ]] || fail "values without a weight: $out"
run 0 "${guided[@]}" --json
expect_part "no weight" "$out" '"value_weight": 0.0'
run 0 "${guided[@]}" --value-weight 2
expect_part "weight" "$out" "guided by run/policy.safetensors, states ordered by values, weight 2, at most"
run 0 "${guided[@]}" --value-weight 2 --json
expect_part "weight" "$out" '"value_weight": 2.0'
run 2 prove eval --generated 60 --search best_first --value-weight 2
expect_part "no policy" "$err" "--value-weight needs --policy"

# --- confidences of rules, with thresholds from validation ---
confident=(prove eval --generated 200 --queries 40 --spaced --corruptions 20 --score confidence --choice-queries 30)
run 0 "${confident[@]}" --threads 1
expect_part "confidences" "$out" "generated: 40 queries of the split test against 20 corruptions a side, score confidence of rules"
expect_part "mined" "$out" "rules of 1, 2, 3 steps and"
expect_part "thresholds" "$out" "of them count: "
expect_part "choice" "$out" "settings on 30 validation queries in"
run 0 "${confident[@]}" --threads 1 --json
first=$(grep -v 'seconds"' <<< "$out")
for part in '"score": "confidence"' '"aggregate": "' '"min_support": ' '"chosen_on": 30' '"mrr_chosen": '; do
    expect_part "JSON of confidences" "$first" "$part"
done
run 0 "${confident[@]}" --threads 3 --json
expect_text "confidences on three threads" "$(grep -v 'seconds"' <<< "$out")" "$first"
for name in max noisy_or; do
    run 0 "${confident[@]}" --aggregate $name --json
    expect_part "$name" "$out" "\"aggregate\": \"$name\""
done
run 0 "${confident[@]}" --rule-steps 1 --no-constants --json
expect_part "short rules" "$(tr -d ' \n' <<< "$out")" '"mined_by_steps":[0,'
run 0 prove embed --generated 200 --epochs 2 --dimensions 8 --quiet --out model.safetensors
run 0 "${confident[@]}" --embedding model.safetensors --fit --json
expect_part "fused with confidences" "$out" '"mrr_after": '
# a graph without rules has confidences, too; here p(x,y) <- q(y,x) holds of both facts of p
mkdir bare
printf 'q(a,b).\nq(c,d).\nq(e,f).\np(b,a).\np(d,c).\n' > bare/train.txt
printf 'p(f,e).\n' > bare/test.txt
run 0 prove eval --data bare --score confidence --corruptions 0
expect_part "no validation queries" "$err" "note: the graph has no validation queries of two arguments; confidences count by default thresholds"
expect_part "the query's rule fires" "$out" "all                                1   1.000"
run 2 prove eval --generated 60 --score confidence --split valid
expect_part "chosen on what is ranked" "$err" "--score confidence chooses its thresholds on the validation queries"
run 2 prove eval --generated 60 --score confidence --search best_first
expect_part "no search" "$err" "it goes with neither --search nor --policy"
run 2 prove eval --generated 60 --score confidence --aggregate mean
expect_part "aggregation" "$err" '--aggregate is "mean", not one of auto, max, noisy_or'
run 0 prove eval --generated 60 --queries 2 --aggregate max
expect_part "no effect" "$err" "--aggregate has no effect without --score confidence"

# --- limits are told ---
run 0 prove eval --generated 200 --queries 5 --search best_first --nodes 1
expect_part "budget" "$err" "met a limit without a proof and count as unproved"

# --- what is refused ---
run 2 prove eval --generated 200 --score probability
expect_part "no search" "$err" "--score probability needs a --search other than prover"
run 2 prove eval --generated 200 --score evidence
expect_part "no search" "$err" "--score evidence needs a --search other than prover"
run 2 prove eval --generated 200 --score evidence --search greedy
expect_part "walk" "$err" "all proofs are searched for by breadth, best_first or beam, not by greedy"
run 2 prove eval --generated 200 --sides middle
expect_part "sides" "$err" '--sides is "middle", not one of head, tail'
run 2 prove eval --generated 200 --search deep
expect_part "search" "$err" '--search is "deep", not one of prover, breadth'
run 2 prove eval --generated 60 --domains
expect_part "no domains" "$err" '--domains: the graph "generated" has no domains; they are read from domain2constants.txt'
run 2 prove eval --data kg --domains
expect_part "no domains" "$err" '--domains: the graph "kg" has no domains'
printf 'letters a b c d\n' > kg/domain2constants.txt
run 0 prove eval --data kg --domains
expect_part "domains" "$out" "corruptions a side of the same domain"
rm kg/domain2constants.txt
run 2 prove eval --data kg --split valid
expect_part "no queries" "$err" "kg has no queries in the split valid"
finish
