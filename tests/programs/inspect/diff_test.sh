#!/usr/bin/env bash
# `esper diff`: two runs, written with plain SQL into the tables of run.db, compared as table and as JSON.
#
# usage: diff_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$1
if ! python3 -c 'import sqlite3' 2> /dev/null; then
    echo "skipped: no python3 with sqlite3 to write the runs"
    exit 77
fi
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1

expect_line() { # pattern: a line of $out, words separated by single blanks
    grep -qx -- "$1" <<< "$(tr -s ' ' <<< "$out" | sed 's/^ //')" || fail "no line \"$1\" in: $out"
}

# make_run NAME SEED SHIFT METRIC: 12 rounds of 4 environments
make_run() {
    mkdir -p "$folder/runs/$1"
    printf '# made by a test\n[run]\nkind = hosts\nseed = %s\n' "$2" > "$folder/runs/$1/config.ini"
    python3 - "$folder/runs/$1/run.db" "$3" "$4" << 'PYTHON'
import sqlite3, sys

path, shift, own_metric = sys.argv[1], float(sys.argv[2]), sys.argv[3]
db = sqlite3.connect(path)
db.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value)")
db.execute("INSERT INTO meta VALUES ('schema_version', 1)")
sequence = 0

def add(event, round_, step=-1, **columns):
    global sequence
    sequence += 1
    values = {"sequence": sequence, "row": 0, "unix_time": 1.7e9 + sequence, "round": round_, "step": step, **columns}
    db.execute(f"CREATE TABLE IF NOT EXISTS event_{event} ({', '.join(values)})")
    db.execute(f"INSERT INTO event_{event} VALUES ({', '.join('?' * len(values))})", list(values.values()))

add("run_started", 0, kind="hosts", task="tiny", device="cpu", n_envs=4, n_host_parameters=500)
for n in range(1, 13):
    add("round_completed", n, accuracy=60 + shift + n, accuracy_std=2.0, loss=1.0, reward=None,
        seconds=2.0 + n % 2, steps_per_second=100 + n % 3, images_per_second=1000 * (1 + shift))
    add("metric", n, name="common/value", value=n % 2 + shift)
    add("metric", n, name="common/constant", value=7.0)
    add("step_timed", n, 0, total_ms=10.0 + n % 4, train_ms=8.0 * (1 + shift), validate_ms=2.0, decide_ms=None)
    add("phase_profiled", n, phase="train", n_calls=5, total_ms=50.0, p50_ms=9.0, p95_ms=12.0, max_ms=20.0 + n)
if own_metric:
    add("metric", 12, name=own_metric, value=1.0)
for episode in range(4): # of one policy, one more of A and of B alone; differences 4, 6, 4, 6 by episode
    score = 10.0 * episode + (shift - (-1) ** episode if shift else 0)
    for arm in ["ppo", "wait" if shift else "wider"]:
        add("episode_outcome", 13, arm=arm, episode=7 + episode, env=episode, final_loss=None, reward=None,
            parameter_ratio=1.0, test_accuracy=score)
add("proof_ranked", 13, arm="policy", split="test", n_queries=100, mrr=0.5 + shift / 100, mrr_low=0.4, mrr_high=0.6)
add("proof_ranked", 12, arm="policy", split="valid", n_queries=100, mrr=0.9, mrr_low=0.8, mrr_high=1.0)
add("metric", 12, name="esper.fit.test_accuracy", value=90.0 + shift)
add("metric", 12, name="esper.hosts.test_accuracy", value=80.0 + shift)
add("metric", 12, name="esper.hosts.test_accuracy_std", value=2.0)
add("run_ended", 12, outcome="done", seconds=30.0)
db.commit()
PYTHON
}

make_run a 1 0 ""
make_run b 2 5 "only/b"
make_run same 1 0 ""
make_run near 3 3 "" # 3 points, 2.1 standard errors of the difference: the two intervals overlap
if [[ $("$esper" diff "$folder/runs/a" "$folder/runs/b" 2>&1) == *"no SQLite"* ]]; then
    echo "skipped: no SQLite in this build"
    exit 77
fi

# --- messages ---
run 2 diff
expect_text "no runs" "$err" $'esper diff: two run folders are needed, 0 given\ntry: esper diff --help'
run 2 diff runs/a
expect_part "one run" "$err" "two run folders are needed, 1 given"
run 2 diff runs/a runs/a/
expect_part "same run" "$err" "runs/a and runs/a/ are the same run"
run 2 diff runs/a nowhere
expect_text "no such run" "$err" "esper diff: no such run: nowhere: No such file or directory"
run 2 diff runs/a b
expect_text "name without folder" "$err" "esper diff: no such run: b; did you mean runs/b?"
mkdir "$folder/empty" "$folder/bare"
run 2 diff empty runs/a
expect_text "no run" "$err" "esper diff: empty is not a run folder: there is no config.ini in it"
echo "[run]" > "$folder/bare/config.ini"
run 2 diff runs/a bare
expect_part "no database" "$err" "bare has no run.db"
echo "not a database, whatever its name says" > "$folder/bare/run.db"
run 2 diff runs/a bare
expect_part "damaged database" "$err" "run.db"

# --- the table ---
run 0 diff runs/a runs/b
expect_text "stderr" "$err" ""
expect_line "A runs/a (hosts, tiny, cpu, done)"
expect_line "run.seed 1 2"
expect_line "rounds 12 - 12 - +0 ="
expect_line "final accuracy, % 72 2 77 2 +5 \*" # 5 > 2 sqrt(2)
expect_line "environment steps, /s 101 2 101 2 +0 ="
expect_line "training images, /s 1000 0 6000 0 +5000 \*"
expect_line "phase train 9 0 9 0 1.00x 12 12 1.00x 32 32 1.00x ="
expect_line "step train 8 0 48 0 6.00x 8 48 6.00x 8 48 6.00x \*"
expect_line "common/value 0 5 0.5 0.527 5.5 0.527 +5" # rounds are no samples: no mark
expect_line "2 equal in both"
expect_line "only in B: metric only/b"
# differences of 4 and 6: a mean of 5, two standard errors 2 * 1.1547 / 2; ranks and hosts: roots of the sums of squares
expect_line "held-out, test split A B B - A"
expect_line "ppo % 15.00 +- 12.91 20.00 +- 13.47 +5.00 +- 1.15 paired \*"
expect_line "wider % 15.00 +- 12.91 - -"
expect_line "wait % - 20.00 +- 13.47 -"
expect_line "policy MRR 0.5000 +- 0.1000 0.5500 +- 0.1000 +0.0500 +- 0.1414 ~"
expect_line "network % 90.00 95.00 +5.00 ?"
expect_line "hosts % 80.00 +- 2.00 85.00 +- 2.00 +5.00 +- 2.83 \*"
run 0 diff runs/a runs/near
expect_line "final accuracy, % 72 2 75 2 +3 \*"
run 0 diff runs/a runs/same
expect_line "configuration: the same"
expect_line "final accuracy, % 72 2 72 2 +0 ="
[[ $(grep -c '\*$' "$folder/out") == 0 ]] || fail "equal runs differ: $out"

# --- superset: B must have what A has ---
run 0 diff runs/a runs/b --superset
run 1 diff runs/b runs/a --superset
expect_text "superset" "$err" \
    "esper diff: runs/a lacks 1 of the metrics and events that runs/b has: only/b"
run 0 diff runs/b runs/a

# --- JSON ---
run 0 diff runs/a runs/b --json
python3 - "$folder/out" << 'PYTHON' || fail "the JSON is not as expected"
import json, sys

root = json.load(open(sys.argv[1]))
assert root["a"]["path"] == "runs/a" and root["b"]["outcome"] == "done", root["a"]
assert root["configuration"] == [{"name": "run.seed", "a": "1", "b": "2"}], root["configuration"]
outcome = {row["name"]: row for row in root["outcome"]}
assert outcome["final accuracy"]["difference"] == 5 and outcome["final accuracy"]["verdict"] == "differs"
assert outcome["final accuracy"]["a"] == {"value": 72, "spread": 2, "noise": 2, "samples": 4}
assert outcome["final reward"]["a"] is None and outcome["final reward"]["verdict"] == "missing"
metrics = {row["name"]: row for row in root["metrics"]}
assert metrics["common/value"]["a"]["last_ten_rounds"]["noise"] is None and metrics["common/constant"]["is_equal"]
assert metrics["only/b"]["a"] is None and metrics["only/b"]["b"]["last"] == 1
latencies = {row["name"]: row for row in root["latencies"]}
assert latencies["step train"]["ratio"]["p95"] == 6 and "step decide" not in latencies
assert root["n_lacking"] == 0
held_out = {row["name"]: row for row in root["held_out"]}
assert list(held_out) == ["ppo", "wider", "policy", "network", "hosts", "wait"], list(held_out)
ppo = held_out["ppo"]
assert ppo["is_paired"] and ppo["unit"] == "%" and ppo["verdict"] == "differs" and ppo["a"]["value"] == 15, ppo
assert abs(ppo["difference"]["low"] - (5 - 2 / 3 ** 0.5)) < 1e-9 and ppo["difference"]["samples"] == 4, ppo
assert held_out["wait"]["a"] is None and held_out["wait"]["difference"] is None, held_out["wait"]
assert not held_out["policy"]["is_paired"] and held_out["policy"]["verdict"] == "noise", held_out["policy"]
assert held_out["network"]["b"] == {"value": 95, "low": None, "high": None, "samples": 1}, held_out["network"]
PYTHON

# --- nothing was changed ---
for name in a b; do
    [[ $(find "$folder/runs/$name" -mindepth 1 -printf '%f\n' | sort | tr '\n' ' ') == "config.ini run.db " ]] || fail "left behind in $name: $(ls "$folder/runs/$name")"
done

finish
