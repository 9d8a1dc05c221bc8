#!/usr/bin/env bash
# `esper grow` as a user runs it: a written schedule, what is recorded, resuming, mistakes.
#
# usage: grow_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$1
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1

cat > "$folder/plan.txt" << 'PLAN'
1  *    germinate r0c1 conv_light style=linear_add tempo=fast
6  *    fossilize r0c1
8  0    germinate r0c0 norm style=gated_gate tempo=fast
9  1-2  wait
PLAN
small=(--envs 3 --episode-steps 12 --step-batches 2 --validation-images 200 --threads 1 --quiet)

# --- a schedule is played, and told ---
run 0 grow "${small[@]}" --rounds 2 --policy "script:$folder/plan.txt" --out "$folder/a"
expect_part "table" "$out" "r0c1 conv_light FOSSILIZED"
[[ $(ask "$folder/a" "select count(*) from seeds where outcome = 'fossilized'") == 6 ]] || fail "fossils: $(ask "$folder/a" "select group_concat(outcome) from seeds")"
[[ $(ask "$folder/a" "select count(*) from episodes where n_fossils = 1") == 6 ]] || fail "episodes with a fossil"
[[ $(ask "$folder/a" "select count(*) from contributions where shapley is not null") -ge 1 ]] || fail "no Shapley values"
# the stride is 10 steps; a row for each seed that was in its host then, with the weight of its stage and alpha
[[ $(ask "$folder/a" "select count(*) || ' ' || min(step) || ' ' || max(step) from seed_metrics") == "8 10 10" ]] ||
    fail "seeds that were measured: $(ask "$folder/a" "select count(*), min(step), max(step) from seed_metrics")"
[[ $(ask "$folder/a" "select count(*) from seed_metrics where stage = 'FOSSILIZED' and alpha = 1 and weight = 1 and gradient_norm > 0
    and share > 0 and share < 1 and conflicts is null") == 6 ]] || fail "the fossils' measurements"
[[ $(ask "$folder/a" "select count(*) from seed_metrics where env = 0 and slot = 'r0c0' and abs(weight - max(0.1, (0.5 + 0.5 * alpha) *
    case stage when 'TRAINING' then 0.25 when 'BLENDING' then 0.5 else 1 end)) < 1e-9") == 2 ]] || fail "the second seed's weight"
[[ $(ask "$folder/a" "select min(n_plan_builds) > 0 and max(plan_build_ms) > 0 and count(n_captures) = 0 from rounds") == 1 ]] || fail "plans are not told"
[[ $(ask "$folder/a" "select stages from seeds where outcome = 'fossilized' limit 1") == "GERMINATED > TRAINING > BLENDING > HOLDING > FOSSILIZED" ]] ||
    fail "stages: $(ask "$folder/a" "select stages from seeds limit 1")"
# growth without seeds is what waiting gives
run 0 grow "${small[@]}" --rounds 1 --policy wait --out "$folder/wait" --json
expect_part "JSON" "$out" '"parameter_ratio": 1.0'

# --- gradients by route: environment 0 has two seeds in the end, the others one ---
sed 's/gated_gate tempo=fast/gated_gate tempo=slow/' plan.txt > slow.txt # while it blends in, routes weigh differently
run 0 grow "${small[@]}" --episode-steps 18 --rounds 1 --policy "script:$folder/slow.txt" --telemetry.stride=1 --aggregation seed --out "$folder/routes"
run 0 grow "${small[@]}" --episode-steps 18 --rounds 1 --policy "script:$folder/slow.txt" --telemetry.stride=1 --out "$folder/plain"
[[ $(ask "$folder/routes" "select count(*) >= 4 and min(env) = 0 and max(env) = 0 and min(conflict_ratio) >= 0 and max(conflict_ratio) <= 1
    and min(teacher_share) > 0 and max(teacher_share) < 1 as is_right
    from seed_metrics where conflicts is not null") == 1 ]] ||
    fail "routes: $(ask "$folder/routes" "select count(*), min(env), max(env), min(conflict_ratio), max(conflict_ratio) from seed_metrics where conflicts is not null")"
[[ $(ask "$folder/routes" "select min(value) || ' ' || max(value) from metrics where name = 'tolaria.grad_agg.microbatches_total'") == "6.0 6.0" ]] ||
    fail "updates: $(ask "$folder/routes" "select min(value) || ' ' || max(value) from metrics where name = 'tolaria.grad_agg.microbatches_total'")"
[[ $(ask "$folder/plain" "select count(*) from metrics where name like 'tolaria.grad_agg.%'") == 0 ]] || fail "metrics of routes without them"
# hosts with a single seed end with the same weights, the one with two does not
losses="select train_loss from event_env_stepped where step = (select max(step) from event_env_stepped) order by env"
differs=$("$esper" query "$folder/routes" "$losses" --csv | diff - <("$esper" query "$folder/plain" "$losses" --csv) | grep -c '^<')
[[ $differs == 1 ]] || fail "$differs hosts differ with aggregation, expected 1"

# --- the same again, on two threads, without telemetry ---
run 0 grow "${small[@]}" --rounds 2 --policy "script:$folder/plan.txt" --out "$folder/b" --threads 2 --json
one=$out
run 0 grow "${small[@]}" --rounds 2 --policy "script:$folder/plan.txt" --out "$folder/c" --telemetry.level=off --json
[[ ${one/\/b\"/} == "${out/\/c\"/}" ]] || fail "threads or telemetry change results"

# --- resuming ---
run 0 grow --resume "$folder/a" --rounds 3 --quiet --json
three=$out
run 0 grow "${small[@]}" --rounds 3 --policy "script:$folder/plan.txt" --out "$folder/d" --json
[[ ${three/\/a\"/} == "${out/\/d\"/}" ]] || fail "a resumed run differs"
cp -r d changed
sed -i 's/^envs = 3/envs = 4/' changed/config.ini
run 2 grow --resume changed --rounds 4 --quiet
expect_part "changed settings" "$err" "[grow] envs was 3 when the run was saved and is 4 in its config.ini"
sed -n 1,5p d/config.ini > changed/config.ini
run 2 grow --resume changed --rounds 4 --quiet
expect_part "settings that are cut" "$err" "when the run was saved and is"
echo '9 * wait' >> "$folder/plan.txt"
run 2 grow --resume "$folder/a" --rounds 4 --quiet
expect_part "changed schedule" "$err" "the schedule is not the one this run began with"

# --- from another folder ---
mkdir elsewhere
printf '1 * germinate r0c1 norm\n' > early.txt
printf '3 * wait\n' > late.txt
printf '[host]\ndata = tiny\n[block0]\nchannels = 4\npool = max\n[block1]\nchannels = 8\npool = max\n' > own.ini
run 0 grow "${small[@]}" --task own.ini --policy script:early.txt --rounds 1 --eval 1 --evaluate.against='wait, script:late.txt' --out moved
(cd elsewhere && "$esper" grow --resume ../moved --rounds 2 --quiet > out.txt 2> err.txt) || fail "resumed from another folder: $(cat elsewhere/err.txt)"
expect_part "its table" "$(cat elsewhere/out.txt)" "script:late.txt  "
run 0 grow --resume moved --policy script:early.txt --quiet
touch wait
run 0 grow "${small[@]}" --policy wait --rounds 1 --out "named"
expect_part "a file with the name of a policy" "$(cat named/config.ini)" "
policy = wait"

# --- the last decision is of no network that is judged ---
printf '1 * germinate r0c1 conv_light style=linear_add tempo=fast\n' > keep.txt
{ cat keep.txt && echo '12 * prune r0c1 speed=instant'; } > drop.txt
run 0 grow "${small[@]}" --rounds 0 --eval 5 --policy script:keep.txt --evaluate.against=script:drop.txt,wait --out judged
python3 - judged/evaluation.json << 'PYTHON' || fail "a prune in the last step changes what is judged"
import json, sys
keep, drop, wait = (arm["episodes"] for arm in json.load(open(sys.argv[1]))["arms"])
for measure in ("test_accuracy", "validation_accuracy", "parameter_ratio"):
    assert keep[measure] == drop[measure], (measure, keep[measure], drop[measure])
assert keep["test_accuracy"] != wait["test_accuracy"] and keep["parameter_ratio"] != wait["parameter_ratio"]
PYTHON
expect_text "prunes in the last step" "$("$esper" grow "${small[@]}" --rounds 1 --policy script:drop.txt --out dropped > dropped.txt
    ask dropped "select count(*) || ' ' || min(round(parameter_ratio, 1) > 1) as found from episodes where n_pruned = 1")" "3 1"

# --- mistakes ---
run 2 grow --slots r0c9
expect_part "slot" "$err" 'host "tiny" has no slot "r0c9"'
run 2 grow --policy learn
expect_part "policy" "$err" 'there is no policy "learn"'
printf '1 * germinate r0c0 nonsense\n' > "$folder/bad.txt"
run 2 grow --policy "script:$folder/bad.txt" --quiet
expect_part "schedule" "$err" 'bad.txt:1:20: "nonsense" is no blueprint'
run 2 grow --task nothing
expect_part "task" "$err" 'no host is called "nothing"'
printf '[host]\nnam = x\n' > "$folder/host.ini"
run 2 grow --task "$folder/host.ini"
expect_part "host file" "$err" 'host.ini:2: unknown key "nam"'
printf '1 7 wait\n' > "$folder/bad.txt"
run 2 grow --envs 3 --policy "script:$folder/bad.txt" --quiet
expect_part "environment" "$err" 'bad.txt:1:3: there is no environment 7; the run has 3'

# --- what is refused, and what is set back, is told as it was ---
printf '1 * germinate r0c1 norm\n2 * germinate r0c1 norm\n' > "$folder/twice.txt"
run 0 grow "${small[@]}" --rounds 1 --policy "script:$folder/twice.txt" --out "$folder/twice"
expect_part "refusals" "$err" "3 operations were refused"
[[ $(ask "$folder/twice" "select refusal from decisions where is_success = 0 limit 1") == "the slot is occupied" ]] || fail "refusal"
printf '1 * germinate r0c1 conv_light style=linear_add tempo=fast\n' > "$folder/hot.txt"
run 0 grow "${small[@]}" --rounds 1 --policy "script:$folder/hot.txt" --out "$folder/hot" --grow.seed_rate=1000 --grow.clip=1000000
[[ $(ask "$folder/hot" "select count(*) from event_governor_rollback where reason = 'governor_divergence' and loss > 12 and n_consecutive = 3") -ge 1 ]] ||
    fail "rollbacks: $(ask "$folder/hot" "select group_concat(reason || ' ' || coalesce(loss, 'NaN')) from event_governor_rollback")"

# --- hosts that are not finite after any step, however often they are set back ---
lost=(--envs 3 --episode-steps 1 --step-batches 4000 --batch 2 --validation-images 200 --threads 1 --quiet --policy wait --eval 0
    --grow.host_rate=1000 --grow.clip=1000000)
run 1 grow "${lost[@]}" --rounds 2 --out "$folder/lost"
expect_part "diverged" "$err" "esper grow: the run diverged: from round 1 on no loss was finite, or no update had a finite step"
[[ -e $folder/lost/checkpoints/2/DONE ]] || fail "a run that diverged is not saved"
[[ $(ask "$folder/lost" "select count(*) from event_governor_rollback where reason = 'governor_nan'") == 6 ]] ||
    fail "rollbacks: $(ask "$folder/lost" "select group_concat(reason) from event_governor_rollback")"
run 1 grow --resume "$folder/lost" --rounds 2 --quiet
expect_part "diverged and resumed" "$err" "esper grow: the run diverged: from round 1 on"

# --- what would happen ---
run 0 grow "${small[@]}" --dry-run
expect_part "dry run" "$out" "# time"
expect_part "dry run" "$out" "# policy      70324 parameters"
expect_part "dry run" "$out" "# comparison  64 held-out episodes"
run 2 grow "${small[@]}" --rounds 0 --eval 0 --policy wait
expect_part "nothing to do" "$err" "0 rounds and no held-out episodes"
[[ ! -e runs ]] || fail "a dry run made a folder"

finish
