#!/usr/bin/env bash
# Policies of version 2 as a user trains and runs them: one file on hosts of other slots, steps and budgets; the budget is
# kept by every policy; the same bytes on two threads and after a resume; mistakes.
#
# usage: grow_set_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$1
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1

host=(--envs 4 --step-batches 2 --validation-images 200 --quiet)
small=("${host[@]}" --episode-steps 20 --policy ppo --policy.version=2 --hidden 16)

# --- two rounds; the same bytes on two threads, and resumed ---
run 0 grow "${small[@]}" --rounds 2 --eval 0 --threads 1 --out a
run 0 grow "${small[@]}" --rounds 2 --eval 0 --threads 2 --out b
run 0 grow "${small[@]}" --rounds 1 --eval 0 --threads 2 --out c
run 0 grow --resume c --rounds 2 --eval 0 --quiet
for other in b c; do
    diff -r a/checkpoints/2 $other/checkpoints/2 > diff.txt || fail "$other: another checkpoint: $(cat diff.txt)"
done
expect_text "updates" "$(ask a "select count(*) || ' ' || sum(is_skipped) from event_update_completed")" "2 0"

# --- one file, other hosts ---
run 0 grow "${host[@]}" --policy a/policy.safetensors --slots r0c0 --episode-steps 30 --rounds 1 --eval 0 --out one
run 0 grow "${host[@]}" --policy a/policy.safetensors --slots all --episode-steps 25 --rounds 1 --eval 0 --out all
[[ $(ask all "select count(distinct slot) from decisions") -gt 1 ]] || fail "one slot alone is used"
expect_reasons all
run 2 grow "${host[@]}" --policy a/policy.safetensors --episode-steps 10 --rounds 1 --eval 0 --out short
expect_part "too short an episode" "$err" "20 to 300 steps; this run has 10 (--episode-steps or --tasks.steps)"

# --- a budget ---
# tiny has 438 parameters
for policy in random heuristic a/policy.safetensors; do
    rm -rf tight
    run 0 grow "${host[@]}" --policy $policy --max-params 600 --episode-steps 30 --rounds 1 --eval 0 --out tight
    expect_text "hosts of $policy beyond the budget" "$(ask tight "select count(*) from episodes where parameter_ratio * 438 > 600.5")" 0
    [[ $(ask tight "select max(n_germinated) from episodes") -gt 0 ]] || fail "$policy germinates nothing"
    [[ $policy != a/* ]] || expect_reasons tight
done
# hosts to compare with stay within it, too, even where a tenth more would not
run 0 grow "${host[@]}" --policy heuristic --max-params 460 --episode-steps 60 --rounds 0 --eval 4 --evaluate.against=wider,deeper --out tighter
# a policy learns under a budget
run 0 grow "${small[@]}" --max-params 600 --rounds 2 --eval 0 --out learned
expect_text "updates under a budget" "$(ask learned "select count(*) || ' ' || sum(is_skipped) from event_update_completed")" "2 0"
expect_text "hosts beyond the budget" "$(ask learned "select count(*) from episodes where parameter_ratio * 438 > 600.5")" 0
run 2 grow "${host[@]}" --policy random --max-params 400 --rounds 1 --eval 0 --out small
expect_part "a budget below the host" "$err" "a budget of 400 parameters is too small: the host alone has 438"
finish
