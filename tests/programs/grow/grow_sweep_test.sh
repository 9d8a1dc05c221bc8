#!/usr/bin/env bash
# `esper grow --sweep`: the numbers of a variant are those of a run with its settings alone, side by side in one run and
# as runs of their own; one table and one database; what is refused, and how a sweep goes on after Ctrl-C.
#
# usage: grow_sweep_test.sh PATH_TO_ESPER [DEVICE]
# exit code: 0 as expected, 1 not, 77 there is no such device
set -uo pipefail
esper=$(realpath "$1") device=${2:-cpu}
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
if [[ $device != cpu ]] && ! "$esper" info | grep -q "$device"; then
    echo "no device $device"
    exit 77
fi
small=(--task tiny --device "$device" --seed 5 --envs 3 --episode-steps 8 --step-batches 2 --validation-images 200 --quiet)
[[ $device != cpu ]] || small+=(--threads 2)

episodes() { # RUN ARM: outcomes of the held-out episodes
    "$esper" query "$1" "SELECT episode, test_accuracy, final_accuracy, parameter_ratio, n_fossils, reward FROM episodes
        WHERE arm = '$2' ORDER BY episode" --csv --limit 0
}

same() { # SWEEP VARIANT RUN POLICY
    [[ $(episodes "$1" "$2" | wc -l) -gt 2 ]] || fail "$1 has no episodes of $2"
    diff <(episodes "$1" "$2") <(episodes "$3" "$4") > "$folder/diff" || fail "$2 is not $3: $(head -4 "$folder/diff")"
}

# --- on a GPU the last bits follow the number of hosts: two sweeps of as many have one variant alike ---
if [[ $device != cpu ]]; then
    tiny=("${small[@]}" --policy random --envs 2 --episode-steps 3 --step-batches 1 --batch 8 --validation-images 40)
    run 0 grow "${tiny[@]}" --sweep host-rate=0.01,0.05 --eval 3 --out "$folder/first"
    run 0 grow "${tiny[@]}" --sweep host-rate=0.05,0.5 --eval 3 --out "$folder/second"
    same "$folder/first" host_rate=0.05 "$folder/second" host_rate=0.05
    diff <(episodes "$folder/second" host_rate=0.5) <(episodes "$folder/first" host_rate=0.05) > /dev/null &&
        fail "the rates do nothing"
    echo "$n_failed failures"
    exit $((n_failed > 0))
fi

# --- side by side: four variants, five episodes each, the last three hosts' worth of which are not whole batches ---
for policy in random heuristic; do
    run 0 grow "${small[@]}" --policy $policy --sweep host-rate=0.01,0.05 --sweep recipe.momentum=0.5,0.9 --eval 5 \
        --out "$folder/side-$policy"
    expect_part "the table" "$out" "host_rate=0.05 momentum=0.9"
    expect_text "variants in the database" "$(ask "$folder/side-$policy" "SELECT count(*) FROM variants
        WHERE n_episodes = 5")" 4
    for rate in 0.01 0.05; do
        run 0 grow "${small[@]}" --policy $policy --grow.host_rate=$rate --recipe.momentum=0.5 --rounds 0 --eval 5 \
            --evaluate.against= --out "$folder/alone-$policy-$rate"
        same "$folder/side-$policy" "host_rate=$rate momentum=0.5" "$folder/alone-$policy-$rate" $policy
    done
done
[[ ! -e $folder/side-random/variant-1 ]] || fail "variants side by side are one run"
diff <(episodes "$folder/side-random" "host_rate=0.01 momentum=0.5") \
    <(episodes "$folder/side-random" "host_rate=0.05 momentum=0.5") > /dev/null && fail "the rates do nothing"
run 0 grow "${small[@]}" --policy wait --sweep grow.seed_rate=0.01,0.05 --sweep grow.clip=0.1,1 \
    --sweep weight_decay=0,0.1 --eval 3 --out "$folder/three" --json
expect_text "the product" "$(echo "$out" | grep -c '"policy_minus_this":')" 8

# --- runs of their own: what a policy trains by ---
trained=("${small[@]}" --hidden 8 --rounds 2 --eval 3)
run 0 grow "${trained[@]}" --sweep reward=basic,shaped --out "$folder/apart"
expect_part "the table" "$out" "difference to"
run 0 grow "${trained[@]}" --reward shaped --evaluate.against= --out "$folder/alone"
same "$folder/apart" mode=shaped "$folder/alone" ppo
cmp "$folder/apart/variant-2/policy.safetensors" "$folder/alone/policy.safetensors" || fail "another policy was trained"
expect_text "paired differences" "$(ask "$folder/apart" "SELECT count(*) FROM variants WHERE variant = 'mode=basic'
    AND abs(difference) < 1e-9")" 1

# --- a sweep goes on: finished variants give their results, others are run ---
cp "$folder/apart/sweep.json" "$folder/before.json"
rm -r "$folder/apart/variant-2" "$folder/apart/sweep.json" "$folder/apart/run.db"
run 2 grow --resume "$folder/apart"
expect_part "a resume without --sweep" "$err" "has the runs of a sweep"
run 0 grow --resume "$folder/apart" --sweep reward=basic,shaped --quiet
cmp "$folder/before.json" "$folder/apart/sweep.json" || fail "the sweep went on with other results"
expect_text "episodes in the database, once each" "$(ask "$folder/apart" "SELECT count(*) FROM event_episode_outcome")" 6
run 2 grow --resume "$folder/apart" --sweep reward=shaped,basic --quiet
expect_part "another sweep" "$err" "reward"

# nor may a variant become another where nothing was trained, so that there is no checkpoint that knows
run 0 grow "${small[@]}" --policy random --eval 3 --sweep batch=16,24 --out "$folder/untrained" --quiet
run 2 grow --resume "$folder/untrained" --sweep batch=16,32 --quiet
expect_part "another value of a variant" "$err" "batch is 24 in the run that is resumed and cannot become 32"

"$esper" grow "${trained[@]}" --sweep reward=basic,shaped --rounds 3000 --checkpoint.every=1 --out "$folder/stopped" \
    > /dev/null 2> "$folder/err" &
job=$!
until [[ -e $folder/stopped/variant-1/checkpoints/1/DONE ]] || ! kill -0 $job 2> /dev/null; do sleep 0.02; done
kill -INT $job
wait $job
expect_text "exit code of Ctrl-C" $? 130
expect_part "the hint" "$(cat "$folder/err")" "--resume $folder/stopped"
[[ ! -e $folder/stopped/variant-2 ]] || fail "Ctrl-C: the next variant was begun"

# --- refusals ---
refused() { # TEXT ARGUMENTS...
    local text=$1
    shift
    run 2 grow "${small[@]}" --policy random --eval 3 --out "$folder/refused" "$@"
    expect_part "esper grow $*" "$err" "$text"
    [[ ! -e $folder/refused ]] || fail "$*: a refused sweep left a folder"
}
refused 'unknown key "host_raet"; did you mean "grow.host_rate"?' --sweep host_raet=1,2
refused 'unknown key "recipe.momentun"; did you mean "recipe.momentum"?' --sweep recipe.momentun=1,2
refused '"clip" is a key of [grow] and of [ppo]; write grow.clip' --sweep clip=1,2
refused '"x" is not a number' --sweep host_rate=0.1,x
refused '1 is listed twice' --sweep host_rate=1,1.0
refused 'grow.host_rate is there twice' --sweep host_rate=1,2 --sweep grow.host_rate=3,4
refused 'grow.host_rate has no values' --sweep host_rate=
refused '"grow.pace" is not KEY=A,B' --sweep pace
refused '18 variants and more, at most 16' --sweep host_rate=1,2,3,4,5,6,7,8,9 --sweep seed_rate=1,2
refused 'run.seed is not for sweeps: --repeat N' --sweep seed=1,2
refused 'compared on the same episodes' --sweep eval=1,2
refused 'it changes no result' --sweep telemetry.level=normal,debug
refused 'it needs --eval N' --sweep host_rate=1,2 --eval 0
refused '--repeat and --sweep exclude each other' --sweep host_rate=1,2 --repeat 2
refused 'leave --sweep out' --sweep host_rate=1,2 --dry-run
refused 'cannot run side by side: environments of one run have it in common' --evaluate.sweep=grow.batch=8,16 \
    --evaluate.against=
refused 'and [evaluate] against names others' --evaluate.sweep=grow.host_rate=1,2
run 2 grow "${small[@]}" --policy random --eval 3 --sweep host_rate=1,2
expect_part "no folder" "$err" "--sweep needs --out DIR"

echo "$n_failed failures"
exit $((n_failed > 0))
