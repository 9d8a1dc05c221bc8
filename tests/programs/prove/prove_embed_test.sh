#!/usr/bin/env bash
# `esper prove embed`: the model's file, progress, JSON, an interrupt, what is refused; and the model in `prove eval`.
#
# usage: prove_embed_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1
quick=(--generated 100 --dimensions 16 --batch 100 --epochs 4 --valid-every 2)

# --- help ---
run 0 prove embed --help
expect_part "help" "$out" "--regularisation X"

# --- a model, the same for any number of threads ---
run 0 prove embed "${quick[@]}" --out one.safetensors --threads 1
expect_part "progress" "$err" "epoch    2   loss"
expect_part "progress" "$err" "valid MRR"
expect_part "result" "$out" "one.safetensors: valid MRR 0."
run 0 prove embed "${quick[@]}" --out two.safetensors --threads 2 --quiet --json
expect_text "quiet" "$err" ""
expect_part "JSON" "$out" '"epochs": 4'
expect_part "JSON" "$out" '"valid_mrr": 0.'
cmp -s one.safetensors two.safetensors || fail "two threads give another model"
run 0 prove embed "${quick[@]}" --out three.safetensors --training-seed 2 --quiet
cmp -s one.safetensors three.safetensors && fail "another seed gives the same model"

# --- fused with proofs in an evaluation ---
rank=(prove eval --generated 100 --queries 20 --corruptions 20 --max-depth 2 --json)
run 0 "${rank[@]}" --embedding one.safetensors --fit --fit-queries 20
expect_part "fit" "$out" '"mrr_after": '
expect_part "fit" "$out" '"queries": 20'
# the fit proves its own candidates; the report is of those that were ranked
n_ranked=$(sed -n '/"all"/,/}/s/.*"negatives": \([0-9]*\),/\1/p' <<< "$out")
[[ $n_ranked -gt 0 ]] || fail "no candidates were ranked: $out"
expect_part "candidates of a fit" "$out" "\"candidates\": $((20 + n_ranked)),"
run 0 "${rank[@]}" --embedding one.safetensors --embedding-alone
expect_part "alone" "$out" '"alone": true'
expect_part "alone" "$out" '"fit": null'
run 0 "${rank[@]}"
expect_part "proofs alone" "$out" '"fusion": null'
run 0 prove eval --generated 100 --queries 20 --corruptions 20 --max-depth 2 --embedding one.safetensors --bonus -0.25 --penalty -0.5 --per-step -1
expect_part "signs" "$out" ": 2 log k, - 0.25 with a proof, + 1 per further step, + 0.5 without"
run 2 "${rank[@]}" --fit
expect_part "fit without a model" "$err" "--fit goes with --embedding FILE"
run 2 "${rank[@]}" --embedding one.safetensors --fit --split valid
expect_part "fit on what is ranked" "$err" "--fit takes the validation queries"
run 2 "${rank[@]}" --embedding nowhere.safetensors
expect_part "no such model" "$err" "nowhere.safetensors: No such file or directory"
run 2 prove eval --generated 101 --embedding one.safetensors
expect_part "another graph" "$err" "one.safetensors is a model of another graph: 100 constants"

# --- a graph without validation queries ---
mkdir kg
printf 'p(a,b).\np(b,c).\np(c,d).\n' > kg/train.txt
printf 'r1:1:p(x,y), p(y,z) -> p(x,z)\n' > kg/rules.txt
run 0 prove embed --data kg --epochs 3 --out kg.safetensors --quiet
expect_part "no validation" "$out" "kg.safetensors: epoch 3, nothing to validate with"

# --- a graph without rules has the same model; rules that come later, over its names, fit it ---
mkdir bare
cp kg/train.txt bare
printf 'p(a,c).\n' > bare/test.txt
run 0 prove embed --data bare --epochs 3 --out bare.safetensors --quiet
cmp -s kg.safetensors bare.safetensors || fail "rules change a model"
run 0 prove eval --data bare --rules kg/rules.txt --embedding bare.safetensors --corruptions 0 --json
expect_part "rules that come later" "$out" '"negatives": 4'
printf '%% none\n' > bare/rules.txt
run 0 prove embed --data bare --epochs 3 --out bare.safetensors --quiet
run 2 prove embed --data bare --rules none.txt --out bare.safetensors --quiet
expect_part "rules that are named" "$err" "bare/none.txt: no such rule file"
# rules with a predicate of their own give the graph a name more, for embed as for eval
printf 'r1:1:p(x,y) -> new(x,y)\n' > bare/rules.txt
run 0 prove embed --data bare --epochs 3 --out named.safetensors --quiet
run 0 prove eval --data bare --embedding named.safetensors --json
run 2 prove eval --data bare --embedding bare.safetensors --json
expect_part "another predicate" "$err" "bare.safetensors is a model of another graph"
printf 'p(a,b).\n' > bare.pl
run 0 prove embed --data bare.pl --epochs 1 --out bare.safetensors --quiet

# --- Ctrl-C keeps the best so far ---
"$esper" prove embed --generated 300 --epochs 100000 --patience 100000 --valid-every 1 \
    --out stopped.safetensors > out 2> err &
pid=$!
for ((i = 0; i < 600; i++)); do
    grep -q "valid MRR" err && break
    sleep 0.05
done
kill -INT "$pid"
wait "$pid"
code=$?
[[ $code == 130 ]] || fail "interrupted: exit code $code, expected 130; $(cat err)"
expect_part "interrupted" "$(cat err)" "stopped.safetensors holds the best model so far"
expect_part "interrupted" "$(cat out)" "stopped.safetensors: valid MRR"
[[ -s stopped.safetensors ]] || fail "an interrupted training left no model"

# --- what is refused ---
run 2 prove embed "${quick[@]}"
expect_part "no file" "$err" "--out FILE is missing; it names the file of the model"
run 2 prove embed --generated 100 --dimensions 9 --out x.safetensors
expect_part "dimensions" "$err" "embedding: dimensions is 9, expected a multiple of 8 up to 1024"
run 2 prove embed --generated 100 --candidates 101 --out x.safetensors
expect_part "candidates" "$err" "embedding: candidates is 101, expected 0 to 100"
run 1 prove embed "${quick[@]}" --out nowhere/x.safetensors
expect_part "folder" "$err" "nowhere/x.safetensors"
[[ $err != *epoch* ]] || fail "trains before it knows whether it can write the model"
finish
