#!/usr/bin/env bash
# Commands on a GPU: what a growth run tells about its captures, slots as a set, the executor that runs hosts, what a comparison leaves out, drawn tasks, what a played
# step asks of the device, and what a profile calls its launches.
#
# usage: device_commands_test.sh PATH_TO_ESPER
# exit code: 0 as expected, 1 not, 77 there is no CUDA device
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"

small=(--task tiny --device cuda --batch 8 --step-batches 1 --validation-images 8)
if ! "$esper" info | grep -q "cuda:0"; then
    echo "no CUDA device"
    exit 77
fi

# --- captures are telemetry ---
run 0 grow "${small[@]}" --envs 2 --rounds 2 --episode-steps 3 --policy random --eval 0 --out "$folder/run"
expect_part "the executor" "$err" ", fused kernels"
expect_text "rounds told" "$(ask "$folder/run" "SELECT count(*) FROM event_plans_measured")" 2
expect_text "parts of a step that are replayed" "$(ask "$folder/run" "SELECT n_captures FROM rounds WHERE round = 2")" 6
expect_text "fall-backs" "$(ask "$folder/run" "SELECT n_fallbacks || ' ' || (fallback IS NULL) AS told
    FROM event_plans_measured WHERE round = 2")" "0 1"
expect_text "replays go on, captures do not" "$(ask "$folder/run" "SELECT b.n_replays > a.n_replays AND a.capture_ms > 0
    AND a.capture_ms = b.capture_ms AS goes_on FROM rounds a, rounds b WHERE a.round = 1 AND b.round = 2")" 1
expect_text "plans are the CPU's" "$(ask "$folder/run" "SELECT count(n_builds) FROM event_plans_measured")" 0

# --- slots as a set: trained under a budget, resumed with the same bytes, and its file on another host ---
set=("${small[@]}" --envs 2 --episode-steps 8 --policy ppo --policy.version=2 --hidden 16 --max-params 600 --eval 0 --quiet)
run 0 grow "${set[@]}" --rounds 2 --out "$folder/set"
run 0 grow "${set[@]}" --rounds 1 --out "$folder/resumed"
run 0 grow --resume "$folder/resumed" --rounds 2 --eval 0 --quiet
diff -r "$folder/set/checkpoints/2" "$folder/resumed/checkpoints/2" > "$folder/diff.txt" ||
    fail "another checkpoint when resumed: $(cat "$folder/diff.txt")"
expect_reasons "$folder/set"
expect_text "updates" "$(ask "$folder/set" "SELECT count(*) || ' ' || sum(is_skipped) AS told FROM event_update_completed")" "2 0"
expect_text "fall-backs" "$(ask "$folder/set" "SELECT max(n_fallbacks) AS n FROM event_plans_measured")" 0
expect_text "hosts beyond the budget" "$(ask "$folder/set" "SELECT count(*) AS n FROM episodes
    WHERE parameter_ratio * 438 > 600.5")" 0
for device in cuda cpu; do
    run 0 grow "${small[@]}" --device $device --policy "$folder/set/policy.safetensors" --slots r0c0 --envs 2 --episode-steps 9 \
        --rounds 1 --eval 0 --quiet --out "$folder/played_$device"
done

# --- a host that the fused kernels cannot run: the slower executor is named, with the reason, and recorded ---
printf '[host]\nname = wide\n[block0]\nchannels = 4\nkernel = 5\npool = max\n[block1]\nchannels = 4\n' > "$folder/wide.ini"
write_npy "$folder/some.npy" 60,8,8 'i % 251'
write_npy "$folder/some_labels.npy" 60 'i % 2'
hosts=(--data "$folder/some.npy" --labels "$folder/some_labels.npy" --device cuda --envs 2 --batch 8 --rounds 1)
why='single operations: not fused, which is slower: block 0 of host "wide" (kernel 5, 4 channels, 8 x 8)'
run 0 hosts --task "$folder/wide.ini" "${hosts[@]}" --out "$folder/wide"
expect_part "the executor" "$err" "$why"
expect_part "the executor, recorded" "$(ask "$folder/wide" "SELECT fallback FROM event_plans_measured")" "not fused, which is slower: block 0"
run 0 hosts --task "$folder/wide.ini" "${hosts[@]}" --dry-run
expect_part "the executor, planned" "$out" "$why"
sed 's/kernel = 5/kernel = 3/' "$folder/wide.ini" > "$folder/fast.ini"
run 0 hosts --task "$folder/fast.ini" "${hosts[@]}" --unfused --dry-run
expect_part "the executor asked for" "$out" "single operations: as was asked for"
run 0 hosts --task "$folder/fast.ini" "${hosts[@]}" --dry-run
expect_part "the fast executor" "$out" $'\n# executor    fused kernels\n'

# --- growth of such a host: the same words, at the start, in the plan and in the records ---
growing=(--data "$folder/some.npy" --labels "$folder/some_labels.npy" --slots r0c0 --device cuda --envs 1 --batch 8 --step-batches 1
    --validation-images 8 --episode-steps 4 --pace instant --policy random --rounds 1)
run 0 grow --task "$folder/wide.ini" "${growing[@]}" --out "$folder/grown"
expect_part "the executor of growth" "$err" "plans of $why"
expect_text "plans of growth, recorded" "$(ask "$folder/grown" "SELECT (n_plans > 1) || ' ' || (fused_bytes IS NULL) || ' ' ||
    (fallback LIKE 'not fused, which is slower: block 0%') AS told FROM event_plans_measured")" "1 1 1"
run 0 grow --task "$folder/wide.ini" "${growing[@]}" --dry-run
expect_part "the executor of growth, planned" "$out" "plans of $why"
run 2 grow --task "$folder/wide.ini" "${growing[@]}" --amp-dtype float16
expect_part "float16" "$err" "float16 runs fused alone: choose bfloat16 or off (f32)"
run 0 bench growth --task "$folder/wide.ini" --device cuda --envs 1 --batch 8 --step-batches 1 --validation-images 8 --seeds none \
    --samples 5 --allow-busy
expect_part "a bench of one's own host" "$err" "note: host \"wide\" grows by plans of single operations: not fused, which is slower: block 0"

# --- a comparison: what a GPU cannot run is left out, final topologies begin with their seeds, and deeper hosts have as many
# blocks as it runs ---
# the seed is as large as many blocks of four channels
printf '[host]\nname = narrow\n[block0]\nchannels = 4\npool = max\n[block1]\nchannels = 16\n' > "$folder/host.ini"
printf '1 * germinate r0c1 conv_heavy tempo=fast\n' > "$folder/large.txt"
write_npy "$folder/images.npy" 60,8,8 'i % 251'
write_npy "$folder/labels.npy" 60 'i % 2'
run 0 grow --task "$folder/host.ini" --data "$folder/images.npy" --labels "$folder/labels.npy" --slots r0c1 --device cuda --batch 4 \
    --step-batches 1 --envs 1 --rounds 0 --episode-steps 4 --pace instant --policy "script:$folder/large.txt" --eval 1 \
    --evaluate.against=wait,eager,deeper,scratch --out "$folder/compared"
expect_part "a policy for the CPU" "$err" '"eager" is left out of the comparison: it decides by size, which --device cpu does alone'
python3 - "$folder/compared/evaluation.json" << 'PYTHON' || fail "a comparison on a GPU"
import json, sys
arms = {arm["policy"]: arm["episodes"]["parameter_ratio"][0] for arm in json.load(open(sys.argv[1]))["arms"]}
assert list(arms)[1:] == ["wait", "deeper", "scratch"], arms
grown = next(iter(arms.values()))
assert arms["scratch"] == grown, arms
assert grown > 4 and 0.7 * grown < arms["deeper"] <= 1.1 * grown, arms
PYTHON

# --- tasks: groups of one shape, controls, hosts that the executors take ---
cat > "$folder/tasks.ini" << 'INI'
[grow]
envs = 2
validation_images = 8
pace = swift
[tasks]
groups = 1
blocks = 2
base = 2
kernel = 3,5
pools = 1
slots = 2
image_size = 8
classes = 2
images = 100
batch = 8
step_batches = 1
steps = 5
[reward]
mode = budget
[policy]
version = 2
hidden = 8
[ppo]
n_epochs = 1
INI
run 0 grow --config "$folder/tasks.ini" --device cuda --rounds 3 --eval 0 --out "$folder/tasks"
expect_part "tasks that were drawn again" "$err" "note: for 3 tasks "
expect_text "tasks" "$(ask "$folder/tasks" "SELECT count(DISTINCT task) || ' ' || count(control_accuracy) || ' ' ||
    sum(task LIKE '%k5%') AS told FROM episodes")" "3 6 0"
expect_text "updates with tasks" "$(ask "$folder/tasks" "SELECT count(*) || ' ' || sum(is_skipped) AS told FROM event_update_completed")" "3 0"

# --- a played step: one synchronisation, nothing allocated, whatever the number of environments ---
run 0 bench sync "${small[@]}" --sweep envs=1,2 --filter growth --allow-busy
expect_part "a played step" "$out" "policy=learned"
expect_part "synchronisations" "$out" " 1.000 syncs "
expect_part "allocations" "$out" " 0.0000 allocs"
expect_part "bytes" "$out" " B from "
[[ $out != *engine* && $out != *hosts* ]] || fail "the filter lets others pass: $out"

# --- launches by block and slot ---
run 0 profile "${small[@]}" --envs 1 --policy wait --wait 0 --warmup 2 --active 1
for name in "fused_forward block 0" "fused_backward block 1" "fused_seed_forward slot 0" "fused_seed_backward slot 1"; do
    expect_part "launches" "$out" $'\n'"$name "
done
expect_part "shapes" "$out" "  grid "
expect_part "shapes" "$out" ", block "
expect_part "bytes" "$out" "bytes copied per step: to device "
expect_part "idle time" "$out" "with no operation running: between launches; a replay counts as one, and none is seen inside"

# --- proofs: environments on the device; a walk of any number of steps is one launch and one wait ---
run 0 bench prove --device cuda --envs 3 --samples 5 --allow-busy --json
python3 - "$folder/out" << 'PYTHON' || fail "a walk on a GPU"
import json, sys
records = json.load(open(sys.argv[1]))
assert {record["case"] for record in records} == {"env", "walk"}, records
walk = {record["metric"]: record["value"] for record in records if record["case"] == "walk"}
assert [128 * walk[count] for count in ("launches", "synchronisations", "copies", "bytes to device")] == [1, 1, 2, 0], walk
PYTHON

finish
