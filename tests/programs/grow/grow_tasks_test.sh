#!/usr/bin/env bash
# A policy trained on drawn tasks, as a user trains and runs it: the same bytes on two threads and after a resume, episodes
# that say their task, held-out tasks, and one file on hosts of 1, 2, 4 and 6 slots and 30, 60 and 150 steps within every
# budget; `esper fit` takes the file from the folder of policies.
#
# usage: grow_tasks_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$1
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1

cat > small.ini << 'INI'
[grow]
envs = 6
validation_images = 60
pace = swift
[tasks]
groups = 2
blocks = 2
base = 2..3
kernel = 3
pools = 1
slots = 1..3
image_size = 8,12
classes = 2..4
images = 200
batch = 16
step_batches = 2
steps = 20..24
budget = 1.5..6
[reward]
mode = budget
[policy]
version = 2
hidden = 16
[ppo]
n_epochs = 2
[evaluate]
against = wait,random,heuristic,eager,wider,deeper,scratch,topologies,search,budget2,budget4
INI

# --- two rounds; the same bytes on two threads, and resumed ---
run 0 grow --config small.ini --rounds 2 --eval 0 --threads 1 --quiet --out a
run 0 grow --config small.ini --rounds 2 --eval 0 --threads 2 --quiet --out b
run 0 grow --config small.ini --rounds 1 --eval 0 --threads 2 --quiet --out c
run 0 grow --resume c --rounds 2 --eval 0 --quiet
for other in b c; do
    diff -r a/checkpoints/2 $other/checkpoints/2 > diff.txt || fail "$other: another checkpoint: $(cat diff.txt)"
done
expect_text "updates" "$(ask a "select count(*) || ' ' || sum(is_skipped) from event_update_completed")" "2 0"
expect_text "episodes" "$(ask a "select count(*) || ' ' || count(distinct episode) || ' ' || count(distinct task) from episodes")" "12 12 4"
expect_part "a task" "$(ask a "select task from episodes")" " classes of "
expect_text "controls" "$(ask a "select count(distinct control_accuracy) > 1 and count(*) = count(control_accuracy) from episodes")" 1
expect_text "a metric" "$(ask a "select count(*) from metrics where name = 'esper.tasks.gain'")" 2
# without pairs there is no control and no gain to record; inputs that are hidden change what is decided
run 0 grow --config small.ini --rounds 1 --eval 0 --tasks.paired=off --quiet --out unpaired
expect_text "no controls" "$(ask unpaired "select count(*) || ' ' || count(control_accuracy) from episodes")" "6 0"
expect_text "no metric" "$(ask unpaired "select count(*) from metrics where name = 'esper.tasks.gain'")" 0
run 0 grow --config small.ini --rounds 2 --eval 0 --policy.hide=place --quiet --out hidden
cmp -s a/policy.safetensors hidden/policy.safetensors && fail "hidden places change nothing"
run 2 grow --resume c --rounds 3 --tasks.groups=3
expect_part "another distribution" "$err" "[tasks] groups is 2 in the run that is resumed"

# --- before the run ---
run 0 grow --config small.ini --dry-run
expect_part "examples" "$out" "# tasks       2 groups of 3 hosts and a control"
expect_part "time" "$out" "steps on average"
run 2 grow --config small.ini --tasks.classes=1..3
expect_part "a range" "$err" "[tasks] classes = 1..3: expected a whole number"
run 2 grow --config small.ini --policy.version=1
expect_part "version 1" "$err" "--policy.version=2"

# --- held-out tasks ---
run 0 grow --config small.ini --policy a/policy.safetensors --rounds 0 --eval 4 --seed 9 --json --quiet --out held
python3 - held/evaluation.json "$out" << 'PYTHON' || fail "the comparison of held-out tasks"
import json, sys
saved, printed = json.load(open(sys.argv[1])), json.loads(sys.argv[2])["evaluation"]
assert printed["n_episodes"] == saved["n_episodes"] and len(printed["arms"]) == len(saved["arms"])
assert saved["n_episodes"] == 6 and saved["task_episodes"] == 3
names = [arm["policy"] for arm in saved["arms"]]
expected = "wait,random,heuristic,eager,wider,deeper,scratch,topologies,best,search,budget2,budget4".split(",")
assert names[1:] == expected, names
for arm in saved["arms"]:
    episodes = arm["episodes"]
    assert sum(episodes["over_budget"]) == 0, arm["policy"]
    assert all(flops > 0 for flops in episodes["flops"])
    assert all(whole > 3 * flops for whole, flops in zip(episodes["training_flops"], episodes["flops"]))
    assert all(ratio >= 1 for ratio in episodes["parameter_ratio"])
wait, scratch, own = saved["arms"][1], saved["arms"][7], saved["arms"][0]
best, search = saved["arms"][9]["episodes"], saved["arms"][10]["episodes"]
for g in range(2):
    group = slice(3 * g, 3 * g + 3)
    # chosen by validation, and all of the policy's training counts
    validation = own["episodes"]["validation_accuracy"][group]
    at = 3 * g + validation.index(max(validation))
    assert best["test_accuracy"][group] == [own["episodes"]["test_accuracy"][at]] * 3
    spent = sum(own["episodes"]["training_flops"][group])
    assert abs(sum(best["training_flops"][group]) / spent - 1) < 1e-9
    # a search takes no less training, and not much more: its last topology begins within it
    assert len(set(search["test_accuracy"][group])) == 1
    assert spent <= sum(search["training_flops"][group]) < 2.5 * spent
gain = saved["arms"][10]["policy_minus_this"]["test_accuracy"]["mean"]
means = [sum(arm["test_accuracy"]) / 6 for arm in (best, search)]
assert abs(gain - (means[0] - means[1])) < 1e-9, (gain, means)
# larger budgets: the policy grows more, as far as there are slots, and every pair is compared
sizes = [sum(saved["arms"][a]["episodes"]["parameters"]) for a in (0, 11, 12)]
assert sizes[0] < sizes[1] <= sizes[2], sizes
pairs = [(gain["from"], gain["to"]) for gain in saved["budget_gains"]]
assert pairs == [(names[0], "budget2"), (names[0], "budget4"), ("budget2", "budget4")], pairs
accuracy = [sum(saved["arms"][a]["episodes"]["test_accuracy"]) / 6 for a in (0, 11, 12)]
assert abs(saved["budget_gains"][2]["test_accuracy"]["mean"] - (accuracy[2] - accuracy[1])) < 1e-9
assert set(wait["episodes"]["parameter_ratio"]) == {1}
assert scratch["episodes"]["parameters"] == own["episodes"]["parameters"]
# an interval is over the means of two tasks: its ends are they
means = [sum(wait["episodes"]["test_accuracy"][g * 3:g * 3 + 3]) / 3 for g in range(2)]
assert abs(wait["mean"]["test_accuracy"]["low"] - min(means)) < 1e-9, (wait["mean"], means)
PYTHON
run 0 grow --resume held
expect_part "a larger budget" "$out" "test % of budget4 - budget2: "
run 2 grow --task tiny --policy wait --rounds 0 --eval 2 --evaluate.against=budget2
expect_part "no budget" "$err" "\"budget2\" is the policy with twice the budget, and this run has none: --max-params"
expect_text "held-out tasks" "$(ask held "select count(distinct task) || ' ' || (select count(*) from episodes e join episodes t on e.task = t.task where e.arm is null) from episodes where arm is not null")" "2 0"

# --- one file, other hosts, lengths and budgets ---
cat > four.ini << 'INI'
[host]
blocks = 4
base = 2
pools = 2
after_pool = on
INI
host=(--envs 2 --step-batches 1 --batch 8 --validation-images 40 --pace swift --rounds 1 --eval 0 --quiet)
for slots in r0c0 r0c0,r1c0 r0c0,r0c1,r0c2,r1c1 all; do
    for steps in 30 60 150; do
        rm -rf play
        run 0 grow "${host[@]}" --task four.ini --data tiny --slots $slots --episode-steps $steps --max-params 2200 \
            --policy a/policy.safetensors --json --out play
        expect_text "hosts with $slots in $steps steps beyond the budget" \
            "$(ask play "select count(*) from episodes join event_run_started where parameter_ratio * n_host_parameters > 2200.5")" 0
        [[ $(ask play "select sum(n_germinated) from episodes") -gt 0 ]] || fail "$slots, $steps steps: nothing grows"
    done
done
if [[ -d /usr/share/datasets/fashion-mnist ]]; then
    run 0 grow "${host[@]}" --task tiny --data fashion-mnist --episode-steps 20 --max-params 900 --policy a/policy.safetensors --out images
    expect_text "hosts beyond the budget" "$(ask images "select count(*) from episodes join event_run_started where parameter_ratio * n_host_parameters > 900.5")" 0
fi

# --- esper fit takes it ---
mkdir policies && cp a/policy.safetensors policies/general.safetensors
export ES_POLICY_DIR=$folder/policies
run 0 fit --data tiny --max-params 4000 --epoch-batches 4 --epochs 20 --candidates 2 --threads 2 --out fitted
expect_part "the policy of a fit" "$out$err" "general.safetensors"
[[ $(ask fitted "select count(*) from event_seed_germinated") -gt 0 ]] || fail "nothing grows in a fit"
finish
