#!/usr/bin/env bash
# `esper grow --policy ppo` as a user runs it: a policy learns, is kept, opened again and compared; several seeds; mistakes.
#
# usage: grow_train_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$1
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
root=$(cd "$(dirname "$0")/../../.." && pwd)
cd "$folder" || exit 1

host=(--envs 4 --episode-steps 6 --step-batches 2 --validation-images 200)
small=("${host[@]}" --policy ppo --hidden 16 --quiet)

# --- two rounds, end to end ---
run 0 grow "${small[@]}" --rounds 2 --eval 6 --threads 1 --checkpoint.every=1 --out a
expect_part "table" "$out" "6 held-out episodes"
expect_part "table" "$out" "difference to"
expect_text "updates" "$(ask a "select count(*) || ' ' || sum(n_epochs > 0) || ' ' || sum(is_skipped) from event_update_completed")" "2 2 0"
expect_text "rounds with a reward" "$(ask a "select count(*) from rounds where reward is not null")" 2
expect_text "episodes with a reward" "$(ask a "select count(*) from episodes where arm is null and reward is not null and stability is not null")" 8
expect_text "rounds with both curves" "$(ask a "select count(*) from metrics where name in ('losses/approx_kl', 'policy/op_entropy')")" 4
expect_text "decisions without a thought" "$(ask a "select count(*) from decisions where confidence is null or entropy is null or value is null")" 0
expect_reasons a
[[ $(ask a "select count(*) from decisions where blueprint is not null") -gt 0 ]] || fail "no germination to explain"
run 0 grow "${host[@]}" --policy heuristic --rounds 1 --eval 0 --quiet --out rules
expect_text "probabilities of rules" "$(ask rules "select count(p.value) from decisions, json_each(op_probabilities) p")" 0
expect_text "operations of rules that were not legal" "$(ask rules "select count(*) from decisions
    where op not in (select key from json_each(op_probabilities))")" 0
expect_text "rewards that are not the sum of their terms" "$(ask a "select count(*) from rewards where abs(total - (attribution + action + warning
    + synergy + rent + shock + occupancy + terminal + shaping + penalty)) > 1e-4")" 0
# the round's reward is the mean of its episodes'
expect_text "rounds with another mean" "$(ask a "select count(*) from rounds r where abs(r.reward - (select avg(e.reward) from episodes e
    where e.round = r.round)) > 1e-9")" 0
# six variants play six episodes each, in the round after the last, apart from all training
expect_text "held-out episodes" "$(ask a "select count(*) || ' ' || count(distinct arm) || ' ' || min(episode) || ' ' || max(episode)
    || ' ' || min(round) as found from episodes where arm is not null and test_accuracy is not null")" "36 6 1073741824 1073741829 3"
[[ -f a/policy.safetensors ]] || fail "no policy in the run folder"
cmp a/policy.safetensors a/checkpoints/2/policy.safetensors || fail "the run's policy is not the last checkpoint's"
cmp -s a/policy.safetensors a/checkpoints/1/policy.safetensors && fail "the second update changed nothing"

# --- one step has no variance, which is no anomaly ---
run 0 grow "${small[@]}" --envs 1 --episode-steps 1 --rounds 2 --eval 0 --out single
expect_text "numbers that went wrong in one step" "$(ask single "select group_concat(detail) from anomalies where rule = 'numerical_instability'")" ""
expect_text "updates of one step" "$(ask single "select count(*) || ' ' || count(explained_variance) from event_update_completed")" "2 0"

# --- the same bytes on two threads, without telemetry, and resumed ---
run 0 grow "${small[@]}" --rounds 2 --eval 6 --threads 2 --telemetry.level=off --out b
run 0 grow "${small[@]}" --rounds 1 --eval 0 --threads 2 --out c
run 0 grow --resume c --rounds 2 --eval 6 --quiet
for other in b c; do
    diff -r a/checkpoints/2 $other/checkpoints/2 > diff.txt || fail "$other: another checkpoint: $(cat diff.txt)"
    cmp a/evaluation.json $other/evaluation.json || fail "$other: another comparison"
done
# a finished run tells what it has, and plays nothing again
touch -d '2001-01-01' a/evaluation.json
run 0 grow --resume a --quiet --json
expect_part "comparison of a finished run" "$out" '"n_episodes": 6'
expect_text "time of its file" "$(stat -c %Y a/evaluation.json)" "$(date -d 2001-01-01 +%s)"
expect_text "held-out episodes" "$(ask a "select count(*) from episodes where arm is not null")" 36
# one that asks for other episodes plays them
run 0 grow --resume a --quiet --eval 3 --json
expect_part "another comparison" "$out" '"n_episodes": 3'
expect_text "held-out episodes" "$(ask a "select count(*) from episodes where arm is not null")" 18

# --- a comparison that was left goes on with the arms that are missing ---
cp -r b left
python3 - left/evaluation.json << 'PYTHON'
import json, sys
whole = json.load(open(sys.argv[1]))
assert [arm["policy"] for arm in whole["arms"]] == ["ppo", "wait", "random", "heuristic", "wider", "deeper"]
whole["arms"][1]["episodes"]["rollbacks"][3] = 77  # shows whether it plays again
del whole["arms"][2:]
json.dump(whole, open(sys.argv[1], "w"))
PYTHON
run 0 grow --resume left --quiet
python3 - b/evaluation.json left/evaluation.json << 'PYTHON' || fail "a comparison that was left"
import json, sys
whole, left = (json.load(open(path))["arms"] for path in sys.argv[1:])
assert [arm["policy"] for arm in left] == [arm["policy"] for arm in whole]
assert left[1]["episodes"]["rollbacks"][3] == 77, "a saved arm has played again"
for a in (0, 2, 3, 4, 5):
    assert left[a] == whole[a], (left[a], whole[a])
text = json.load(open(sys.argv[2]))
text["arms"][0]["episodes"]["rollbacks"][3] = 88
json.dump(text, open(sys.argv[2], "w"))
PYTHON
# a policy that has learned more plays again, the others do not
run 0 grow --resume left --rounds 3 --quiet
python3 - b/evaluation.json left/evaluation.json << 'PYTHON' || fail "a comparison after more rounds"
import json, sys
before, after = (json.load(open(path)) for path in sys.argv[1:])
assert after["rounds"] == 3
assert after["arms"][0]["sha256"] != before["arms"][0]["sha256"]
assert after["arms"][0]["episodes"]["rollbacks"][3] != 88, "the policy has not played again"
assert after["arms"][1]["episodes"]["rollbacks"][3] == 77
PYTHON

# --- a policy against itself, and as many as there may be ---
run 0 grow "${small[@]}" --rounds 1 --eval 1 --evaluate.against=ppo,wait --out self
expect_part "one episode" "$out" "1 held-out episode, "
run 2 grow "${small[@]}" --rounds 1 --eval 1 --out many --evaluate.against="$(for ((i = 0; i < 16; i++)); do
    cp b/policy.safetensors "p$i" && printf 'p%d,' "$i"
done)"
expect_part "policies" "$err" "at most 16 policies can be compared"
[[ ! -e many ]] || fail "a comparison that cannot be made has a folder"

# --- more hosts than episodes play no more episodes, and the same ones ---
for n in 1 3 4 7; do
    run 0 grow "${host[@]}" --envs $n --policy b/policy.safetensors --rounds 0 --eval 4 --evaluate.against=heuristic --quiet --out "wide-$n"
    cmp wide-1/evaluation.json "wide-$n/evaluation.json" || fail "$n hosts: another comparison"
done
expect_text "hosts that played" "$(ask wide-7 "select count(distinct env) from episodes where arm is not null")" 4
expect_text "hosts that played" "$(ask wide-3 "select count(distinct env) from episodes where arm is not null")" 2

# --- networks that never grow ---
# a host of the size that waiting ends with is the host, and so is its topology: the same bits
run 0 grow "${host[@]}" --policy wait --rounds 0 --eval 6 --evaluate.against=wider,deeper,scratch --quiet --out still
# two seeds of different size from scratch, and hosts as large as the mean
printf '1 0-1 germinate r0c1 conv_light style=linear_add tempo=fast\n1 2-3 germinate r0c0 norm tempo=fast\n' > two.txt
sizes=(--envs 4 --episode-steps 8 --step-batches 2 --validation-images 200 --policy script:two.txt --rounds 1 --eval 8)
baselines=wait,wider,deeper,scratch,topologies
mkdir scratch # a folder of that name is not a policy
run 0 grow "${sizes[@]}" --evaluate.against=$baselines --quiet --threads 2 --out grown
rmdir scratch
expect_part "meaning" "$out" "scratch: each episode's final topology, from its first step on"
expect_text "rows of the table" "$(awk 'NR > 2 && NF == 0 { exit } NR > 2 { print $2 }' <<< "$out")" \
    "$(awk 'NR > 2 && NF == 0 { exit } NR > 2 { print $2 }' <<< "$out" | sort -rg)"
expect_text "rewards of what never grew" "$(ask grown "select count(reward) from episodes where arm in ('wider', 'deeper', 'scratch', 'topologies')")" 0
python3 - still/evaluation.json grown/evaluation.json << 'PYTHON' || fail "networks that never grow"
import json, sys
still, grown = (json.load(open(path)) for path in sys.argv[1:])
measures = ("test_accuracy", "validation_accuracy", "parameter_ratio", "fossils", "rollbacks")
wait = still["arms"][0]["episodes"]
for arm in still["arms"][1:]:
    assert all(arm["episodes"][name] == wait[name] for name in measures), arm["policy"]
    assert arm["episodes"]["reward"] == [None] * 6
arms = {arm["policy"]: arm["episodes"] for arm in grown["arms"]}
policy = grown["arms"][0]["episodes"]
assert len(set(policy["parameter_ratio"])) == 2, policy["parameter_ratio"]
assert arms["scratch"]["parameter_ratio"] == policy["parameter_ratio"]
assert arms["scratch"]["fossils"] == [1] * 8, arms["scratch"]["fossils"]
assert arms["scratch"]["test_accuracy"] != policy["test_accuracy"]
mean = sum(policy["parameter_ratio"]) / 8
assert 1 < arms["wider"]["parameter_ratio"][0] <= 1.1 * mean + 1e-3
for name in ("wider", "deeper"):
    assert len(set(arms[name]["parameter_ratio"])) == 1
assert max(arms["topologies"]["parameter_ratio"]) <= mean + 1e-3 and sum(arms["topologies"]["fossils"]) > 0
PYTHON
# a comparison that was left before "scratch" goes on to the same bytes
cp -r grown left-off
python3 - left-off/evaluation.json << 'PYTHON'
import json, sys
whole = json.load(open(sys.argv[1]))
del whole["arms"][4:]
json.dump(whole, open(sys.argv[1], "w"))
PYTHON
run 0 grow --resume left-off --quiet
cmp grown/evaluation.json left-off/evaluation.json || fail "a comparison that was left before its topologies"

# --- a policy's file plays; equal policies differ by nothing, exactly ---
cp b/policy.safetensors first.safetensors
cp b/policy.safetensors second.safetensors
run 0 grow "${host[@]}" --policy first.safetensors --rounds 0 --eval 6 --evaluate.against=second.safetensors,wait --quiet --json --out d
python3 - "$folder" << 'PYTHON' || fail "the comparison of a file"
import json, sys
trained, file = (json.load(open(f"{sys.argv[1]}/{run}/evaluation.json")) for run in ("b", "d"))
assert file["arms"][0]["policy"] == f"{sys.argv[1]}/first.safetensors", file["arms"][0]["policy"]
arms = {arm["policy"].split("/")[-1]: arm for arm in file["arms"]}
assert list(arms) == ["first.safetensors", "second.safetensors", "wait"], list(arms)
same = arms["second.safetensors"]
assert all(value == {"mean": 0, "low": 0, "high": 0} for value in same["policy_minus_this"].values()), same["policy_minus_this"]
# as a file it does what it did at the end of its training
assert trained["arms"][0]["episodes"] == arms["first.safetensors"]["episodes"]
# means and differences are those of the episodes
def mean(values): return sum(values) / len(values)
for name, arm in arms.items():
    for measure, values in arm["episodes"].items():
        assert len(values) == 6 and abs(arm["mean"][measure]["mean"] - mean(values)) < 1e-9
        paired = mean([a - b for a, b in zip(arms["first.safetensors"]["episodes"][measure], values)])
        assert abs(arm["policy_minus_this"][measure]["mean"] - paired) < 1e-9
        low, high = arm["mean"][measure]["low"], arm["mean"][measure]["high"]
        assert low <= mean(values) + 1e-9 and mean(values) - 1e-9 <= high and low >= min(values) - 1e-9 and high <= max(values) + 1e-9
assert arms["wait"]["mean"]["parameter_ratio"] == {"mean": 1, "low": 1, "high": 1}
PYTHON
run 0 grow --resume d --quiet
expect_part "equal policies" "$out" "second.safetensors  +0.00 [+0.00, +0.00]  "
run 0 grow "${host[@]}" --policy "$folder/first.safetensors" --rounds 0 --eval 2 --evaluate.against= --quiet --out alone
expect_part "one policy, by the end of its path" "$out" "
first.safetensors   "
[[ $out == *differences* ]] && fail "differences of one policy: $out"
run 0 grow "${host[@]}" --policy first.safetensors --rounds 0 --eval 6 --evaluate.against=wait --evaluate.greedy=on --quiet --out g
expect_part "greedy" "$out" "take the most likely action"
run 0 grow "${host[@]}" --policy heuristic --rounds 1 --eval 0 --quiet --json --out h
expect_part "baseline" "$out" '"reward": '

# --- hosts that diverge while it learns: rolled back, paid for, and learned from all the same ---
run 0 grow "${small[@]}" --episode-steps 14 --rounds 2 --eval 0 --grow.seed_rate=1000 --grow.clip=1000000 --telemetry.stride=1 --out hot
rollbacks=$(ask hot "select count(*) from event_governor_rollback where penalty = -10")
((rollbacks > 0)) || fail "no rollbacks"
expect_text "rewards with a penalty" "$(ask hot "select count(*) from rewards where penalty <= -10 and total < -9")" "$rollbacks"
expect_text "rows that learned" "$(ask hot "select count(*) from event_update_completed where n_epochs > 0 and is_skipped = 0")" 2

# --- several seeds ---
run 0 grow "${small[@]}" --rounds 1 --eval 4 --repeat 2 --seed 7 --out seeds --json
both=$out
expect_part "JSON over seeds" "$both" '"first_seed": 7'
[[ -f seeds/seed-7/evaluation.json && -f seeds/seed-8/evaluation.json ]] || fail "folders of the seeds: $(ls seeds)"
cmp -s seeds/seed-7/policy.safetensors seeds/seed-8/policy.safetensors && fail "two seeds gave one policy"
python3 -c 'import json, sys; assert json.load(open("seeds/seeds.json"))["first_seed"] == 7' || fail "seeds.json"
run 2 grow --resume seeds --quiet
expect_part "several runs" "$err" "seeds has the runs of several seeds; --repeat N goes on with them: esper grow --repeat N --resume seeds"
rm -r seeds/seed-8
run 0 grow --resume seeds --repeat 2 --quiet --json
expect_text "after resuming" "$out" "$both"
run 0 grow --resume seeds --repeat 2 --quiet
expect_part "table over seeds" "$out" "means over 2 seeds"

# --- interrupted while comparing: what has played stays ---
"$esper" grow "${host[@]}" --policy wait --rounds 0 --eval 100 --evaluate.against=random,heuristic --out kept > out.txt 2> err.txt &
child=$!
for ((i = 0; i < 1000; i++)); do
    [[ -f kept/evaluation.json ]] && break
    sleep 0.02
done
kill -INT $child
wait $child
code=$?
expect_text "exit code of an interrupted comparison" "$code" 130
cp kept/evaluation.json kept.json
run 0 grow --resume kept --quiet
python3 - kept.json kept/evaluation.json << 'PYTHON' || fail "an interrupted comparison"
import json, sys
before, after = (json.load(open(path))["arms"] for path in sys.argv[1:])
assert before[0]["policy"] == "wait" and 1 <= len(before) < 3, [arm["policy"] for arm in before]
assert [arm["policy"] for arm in after] == ["wait", "random", "heuristic"]
assert [arm["episodes"] for arm in after[:len(before)]] == [arm["episodes"] for arm in before]
PYTHON

"$esper" grow "${host[@]}" --policy wait --rounds 1 --eval 100000 --repeat 3 --seed 7 --out 'three seeds' > out.txt 2> err.txt &
child=$!
for ((i = 0; i < 200; i++)); do
    [[ -d three\ seeds/seed-7/checkpoints/1 ]] && break
    sleep 0.1
done
kill -INT $child
wait $child
expect_text "exit code of interrupted seeds" "$?" 130
expect_part "their hint" "$(cat err.txt)" "interrupted in seed 7, 0 of 3 are done, and its saved rounds stay. Go on with: esper grow --repeat 3 --resume 'three seeds'"
expect_text "hints" "$(grep -c -- '--resume' err.txt)" 1

# --- a disk that is full at the end ---
ES_FILE_FAULT=rename:3+:ENOSPC "$esper" grow "${host[@]}" --policy wait --rounds 2 --eval 0 --quiet --out full > out.txt 2> err.txt
expect_text "exit code without room" "$?" 1
expect_part "without room" "$(cat err.txt)" "round 2 could not be saved: "
expect_part "without room" "$(cat err.txt)" "0 of 2 rounds are saved; when the cause is gone, go on with: esper grow --resume "
expect_part "the hosts all the same" "$(cat out.txt)" "last round: 4 x tiny"
run 2 grow --resume full --quiet
expect_part "nothing saved" "$err" "full has no checkpoint to go on from; with --restart it starts again"
run 0 grow --resume full --restart --quiet

# --- interrupted in the first of them ---
"$esper" grow "${host[@]}" --policy heuristic --rounds 1 --eval 100000 --out stop > out.txt 2> err.txt &
child=$!
for ((i = 0; i < 200; i++)); do
    [[ -d stop/checkpoints/1 ]] && break
    sleep 0.1
done
sleep 0.5
kill -INT $child
wait $child
expect_text "exit code of an interrupted comparison" "$?" 130
expect_part "its message" "$(cat err.txt)" "all 1 rounds are saved, but the work after them is not done"
run 0 grow --resume stop --eval 2 --quiet
expect_part "resumed comparison" "$out" "2 held-out episodes"

# --- the settings that come with the program ---
for preset in "$root"/configs/*.ini; do
    [[ $preset == */prove_* || $preset == */fit_* ]] && continue
    n_envs=$([[ $preset == *general.ini ]] && echo 16 || echo 2) # two hosts for each of its groups
    run 0 grow --config "$preset" --envs "$n_envs" --dry-run
    expect_part "$preset" "$out" "# policy"
    for setting in "schedule = cosine" "warmup = 0.05" "nesterov = true" "border = reflect"; do
        expect_part "recipe of $preset" "$out" "$setting"
    done
done

# --- mistakes ---
run 2 grow --hidden 60
expect_part "hidden" "$err" "[policy] hidden is 60; it must be a multiple of 8"
run 2 grow --rounds 1000000000 --envs 2
expect_part "too many episodes" "$err" "2000000000 episodes; a run has at most 1073741824"
run 2 grow --policy first.safetensors --quiet
expect_part "another host" "$err" "first.safetensors: the policy was trained with --episode-steps 6; this run has 30"
run 2 grow --policy ppo --evaluate.against=wait,nothing
expect_part "against" "$err" '[evaluate] against: there is no policy "nothing"'
run 2 grow --ppo.rat=1
expect_part "key" "$err" 'unknown key "rat" in [ppo]; did you mean "rate"?'
run 2 grow --reward.mode=rich
expect_part "reward" "$err" 'is not one of shaped, basic, sparse'
run 2 grow --repeat 2
expect_part "repeat" "$err" "--repeat needs --out DIR"
run 2 grow --repeat 2 --policy wait --out w
expect_part "repeat without episodes" "$err" "it needs --eval N"
run 2 grow --repeat 2 --seed 2147483647 --eval 1 --out w
expect_part "seeds" "$err" "--repeat 2 from seed 2147483647 on; seeds go up to 2147483647"
run 2 grow --resume b --ppo.rate=0.5 --quiet
expect_part "resumed with another rate" "$err" "[ppo] rate is"
run 0 grow "${host[@]}" --episode-steps 4 --policy ppo --hidden 16 --rounds 1 --eval 0 --out short
expect_part "short episodes" "$err" "an episode has 4 steps, and the earliest in which a seed can be fossilised is 5"
printf 'not a policy' > broken.safetensors
run 2 grow --policy broken.safetensors --quiet
expect_part "broken file" "$err" "broken.safetensors"
cp -r b damaged
truncate -s 1000 damaged/checkpoints/2/training.safetensors
run 2 grow --resume damaged --quiet --eval 0
expect_part "a damaged checkpoint" "$err" "it is kept as damaged/checkpoints/damaged-2: "
expect_part "a damaged checkpoint" "$err" "damaged has no checkpoint to go on from"
[[ -f damaged/checkpoints/damaged-2/training.safetensors ]] || fail "a damaged checkpoint is lost"
run 0 grow --resume damaged --restart --quiet --eval 0
diff -r a/checkpoints/2 damaged/checkpoints/2 > diff.txt || fail "played again it differs: $(cat diff.txt)"

# --- hosts that are finite, and a policy without a finite step: its value has run away in a checkpoint that is whole ---
run 0 grow "${host[@]}" --policy ppo --hidden 16 --rounds 1 --eval 0 --out runaway
python3 - runaway/checkpoints/1 << 'PYTHON' || fail "cannot multiply weights"
import hashlib, json, pathlib, struct, sys
folder = pathlib.Path(sys.argv[1])
def fit(path, replace):  # a text of the checkpoint that names the hash of another file
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    text = path.read_text()
    for old, new in replace.items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return {before: hashlib.sha256(path.read_bytes()).hexdigest()}
path = folder / "training.safetensors"
data = bytearray(path.read_bytes())
before = hashlib.sha256(data).hexdigest()
end = 8 + struct.unpack("<Q", data[:8])[0]
for name, tensor in json.loads(data[8:end]).items():
    if name == "policy.value.linear3.weight":
        first, last = (end + i for i in tensor["data_offsets"])
        weights = struct.unpack(f"<{(last - first) // 4}f", data[first:last])
        data[first:last] = struct.pack(f"<{len(weights)}f", *(1e30 * w for w in weights))
path.write_bytes(data)
hashes = {before: hashlib.sha256(data).hexdigest()}
for name in ("rank0.json", "manifest.json", "DONE"):
    hashes = fit(folder / name, hashes)
PYTHON
run 1 grow --resume runaway --rounds 2 --quiet
expect_part "diverged" "$err" "esper grow: the run diverged: from round 2 on no loss was finite, or no update had a finite step"
[[ -e runaway/checkpoints/2/DONE ]] || fail "a run that diverged is not saved"

finish
