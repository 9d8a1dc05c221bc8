#!/usr/bin/env bash
# `esper fit` on a GPU: hosts that run fused and by plans, rows, refusals, the number of epochs by time, and a fit that ends
# after an epoch and is gone on with. Everything is as small as it can be: CUDA may be emulated.
#
# usage: fit_device_test.sh PATH_TO_ESPER
# exit code: 0 as expected, 1 not, 77 there is no CUDA device
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1
if ! "$esper" info | grep -q "cuda:0"; then
    echo "no CUDA device"
    exit 77
fi

# stripes of two directions, and rows
write_npy images.npy 80,8,8 '200 * ((i % 8 if i // 64 % 2 else i // 8 % 8) % 2) + (7 * (i // 64) + 3 * (i % 64)) % 50'
write_npy labels.npy 80 'i % 2'
{
    echo "a,b,label"
    for i in {0..199}; do echo "$((i % 7)),$((i % 5)),$( ((i % 7 < 3)) && echo no || echo yes)"; done
} > rows.csv
printf '[host]\nname = mine\n[block0]\nchannels = 4\npool = max\n[block1]\nchannels = 4\n' > host.ini
{
    printf '[host]\nname = tower\n'
    for i in {0..6}; do printf '[block%d]\nchannels = 4\n' "$i"; done
} > tower.ini
images=(--data images.npy --labels labels.npy --device cuda --batch 4 --epoch-batches 2 --max-params 1400)

# --- refusals: each names what is to be changed, and leaves nothing behind ---
run 2 fit "${images[@]}" --recipe.optimiser=adamw
expect_part "AdamW" "$err" "esper fit: recipe.optimiser = adamw trains on the CPU alone"
[[ $err != *host* ]] || fail "AdamW is blamed on hosts: $err"
run 2 fit "${images[@]}" --compare 1
expect_part "a comparison" "$err" "esper fit: --compare runs on the CPU alone; --device cpu"
[[ ! -e runs ]] || fail "a refused fit leaves a folder"

# --- every host runs; those that do not run fused are named, and why ---
slower="runs by plans of single operations: not fused, which is slower: host"
run 0 fit "${images[@]}" --epochs 3 --candidates 1 --dry-run
expect_part "hosts" "$out" "Host \"deepest\" $slower \"deepest\" has 7 blocks (at most 6)"
expect_text "hosts that do not run fused" "$(grep -o "runs by plans" <<< "$out" | wc -l)" 1
expect_text "hosts that are left out" "$(grep -c "Left out here" <<< "$out")" 0
run 0 fit "${images[@]}" --task tower.ini --epochs 3 --candidates 1 --dry-run
expect_part "a deep host" "$out" "Host \"tower\" $slower \"tower\" has 7 blocks (at most 6)"

# --- rows: the default recipe, averages and all, to a network that says what it is told ---
run 0 fit --data rows.csv --device cuda --max-params 300 --epochs 12 --candidates 2 --epoch-batches 4 --quiet --out table
run 0 predict table rows.csv
expect_text "predictions of rows" "$(wc -l <<< "$out")" 201
expect_text "accuracy on rows" "$(ask table "select max(value) > 80 from metrics where name = 'esper.fit.best_accuracy'")" 1

# --- a fit that ends after an epoch and goes on has the network of one that does not ---
grown=("${images[@]}" --task host.ini --candidates 2 --policy random --quiet)
run 0 fit "${grown[@]}" --epochs 4 --out whole
run 0 fit "${grown[@]}" --epochs 4 --max-seconds 0.001 --out halted
expect_text "epochs within no time" "$(ask halted "select count(*) from rounds")" 1
run 0 fit --resume halted --max-seconds 0 --quiet
expect_text "epochs of both" "$(ask halted "select count(*) from rounds") $(ask whole "select count(*) from rounds")" "4 4"
diff -r whole/checkpoints/4 halted/checkpoints/4 || fail "resumed: another state at the end"
for file in network.json network.safetensors; do
    cmp "whole/networks/1/$file" "halted/networks/1/$file" || fail "resumed: $file differs"
done
expect_text "candidates at the end" "$(ask whole "select cast(value as integer) from metrics where name = 'esper.fit.candidates' and round = 4")" 1
run 0 predict whole images.npy # on the CPU
expect_text "predictions" "$(wc -l <<< "$out")" 81

# --- the number of epochs by time ---
run 0 fit "${images[@]}" --task host.ini --candidates 1 --max-seconds 0.001 --out timed
expect_part "epochs by time" "$err" "1 epochs of 2 updates (as many as --max-seconds 0.001 allows; with all candidates one takes "
finish
