#!/usr/bin/env bash
# `esper runs`: the table, JSON, what is removed and what is refused.
#
# usage: runs_test.sh PATH_TO_ESPER PATH_TO_MAKE_CASE_RUN
set -uo pipefail
esper=$(realpath "$1")
make_case_run=$(realpath "$2")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
holder=
trap '[[ -n $holder ]] && kill "$holder" 2> /dev/null; rm -rf "$folder"' EXIT
cd "$folder" || exit 1

# --- nothing there ---
run 0 runs
expect_text "no runs" "$out" "no runs in runs"
run 0 runs --json
expect_text "no runs, JSON" "$out" "[]"
run 2 runs elsewhere
expect_text "no folder" "$err" "esper runs: there is no folder elsewhere"

# --- the table ---
"$make_case_run" runs/first 3 || fail "cannot make a run"
"$make_case_run" runs/second 0 || fail "cannot make a run"
mkdir runs/no_run
touch -d "40 days ago" runs/first/config.ini
find runs/first -type f -exec touch -d "40 days ago" {} +
run 0 runs
expect_text "stderr of the table" "$err" ""
expect_text "lines of the table" "$(wc -l <<< "$out")" 4
expect_part "table" "$(sed -n 1p <<< "$out")" \
    "name    kind        rounds test accuracy parameters duration checkpoints      size     age  outcome"
expect_part "table" "$(sed -n 2p <<< "$out")" "first   hosts         3/40             -          -        -           3"
expect_part "table" "$(sed -n 2p <<< "$out")" "40 d  -"
expect_part "table" "$(sed -n 3p <<< "$out")" "second  hosts         -/40             -          -        -           0"
expect_part "table" "$(sed -n 4p <<< "$out")" "2 runs, "
# the second run is seconds old, and a second may pass between two listings
table=$(grep -v "^second" <<< "$out")
run 0 runs runs/
expect_text "with a slash" "$(grep -v "^second" <<< "$out")" "$table"
run 0 runs runs/first
expect_part "one run" "$out" "1 run, "
if command -v python3 > /dev/null; then
    "$esper" runs --json | python3 -c '
import json, sys
first, second = json.load(sys.stdin)
assert first["name"] == "first" and first["path"] == "runs/first" and first["kind"] == "hosts"
assert first["rounds"] == 3 and first["rounds_asked"] == 40 and first["outcome"] is None and first["checkpoints"] == 3 and first["active"] is False
assert first["bytes"] > first["checkpoint_bytes"] > 30000
assert second["rounds"] is None and second["checkpoints"] == 0
assert all(first[key] is None for key in ("test_accuracy", "test_mrr", "parameters", "seconds"))
' || fail "runs --json"
else
    echo "no python3: JSON not parsed"
fi

# --- results, by kind; runs of other schemas and of no end ---
if python3 -c 'import sqlite3' 2> /dev/null && "$esper" info | grep -qi "sqlite *3"; then
    mkdir results
    python3 - << 'PYTHON' || fail "cannot write runs"
import json, os, sqlite3

def make(name, kind, rows, network=None):
    os.makedirs(f"results/{name}/networks/1")
    open(f"results/{name}/config.ini", "w").write(f"[run]\nkind = {kind}\nrounds = 9\n")
    if network is not None:
        open(f"results/{name}/networks/1/network.json", "w").write(network)
    db = sqlite3.connect(f"results/{name}/run.db")
    db.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value)")
    db.execute("INSERT INTO meta VALUES ('schema_version', 1)")
    for event, columns in rows:
        db.execute(f"CREATE TABLE IF NOT EXISTS event_{event} ({', '.join(columns)})")
        db.execute(f"INSERT INTO event_{event} VALUES ({', '.join('?' * len(columns))})", list(columns.values()))
    db.commit()

start = ("run_started", {"unix_time": 1000.0, "n_host_parameters": 500})
end = ("run_ended", {"unix_time": 1300.0, "outcome": "done", "seconds": 300.0})
def episode(round_, arm, test, ratio):
    return "episode_outcome", {"round": round_, "arm": arm, "test_accuracy": test, "parameter_ratio": ratio}
training = [episode(n, None, None, 1.1) for n in range(1, 10) for _ in range(4)]
held_out = [episode(10, "ppo", 60.0, 1.5), episode(10, "ppo", 62.5, 1.7), episode(10, "wait", 50.0, 1.0)]
make("grown", "grow", [start, *training, *held_out, ("checkpoint_loaded", {"unix_time": 900.0}), end])
make("growing", "grow", [start, *training, ("round_completed", {"unix_time": 1030.0}),
                         ("checkpoint_loaded", {"unix_time": 900.0}), ("run_ended", {"unix_time": 950.0, "outcome": "interrupted", "seconds": 20.0})])
make("old", "grow", [start, ("episode_outcome", {"round": 1, "final_accuracy": 5.0}), end])
make("bare", "grow", [start])
make("fitted", "fit", [start, end], json.dumps({"parameters": 4321, "made_by": {"test_accuracy": 91.25}}))
make("torn", "fit", [start, end], '{"parameters": 4')
tested = [("metric", {"round": 9, "name": "esper.hosts.test_accuracy", "value": 33.5}), ("metric", {"round": 9, "name": "x", "value": 1.0})]
make("hosted", "hosts", [start, ("round_completed", {"unix_time": 1200.0, "round": 9}), *tested, end])
make("longer", "hosts", [start, *tested, ("round_completed", {"unix_time": 1200.0, "round": 10}), end]) # resumed since
def ranked(arm, split, mrr):
    return "proof_ranked", {"arm": arm, "split": split, "mrr": mrr}
make("proved", "prove", [start, ranked("policy", "valid", 0.1), ranked("policy", "test", 0.5), ranked("policy", "test", 0.85625), ranked("uniform", "test", 0.2), end])
PYTHON
    run 0 runs results
    expect_results() { # NAME the columns behind the rounds
        local seen
        seen=$(grep "^$1 " <<< "$out" | tr -s ' ' | cut -d ' ' -f 4-)
        [[ $seen == "$2 0 "* ]] || fail "results of $1 are \"$seen\", expected \"$2\" and no checkpoints"
    }
    expect_part "heading" "$(sed -n 1p <<< "$out")" "test accuracy  test MRR parameters duration"
    expect_results grown "61.25 % - 800 5 min"
    expect_results growing "- - 550 50 s"
    expect_results old "- - - 5 min"
    expect_results bare "- - - -"
    expect_results fitted "91.25 % - 4321 5 min"
    expect_results torn "- - - 5 min"
    expect_results hosted "33.50 % - 500 5 min"
    expect_results longer "- - 500 5 min"
    expect_results proved "- 0.8562 - 5 min"
    run 0 runs results --json
    python3 -c '
import json, sys
runs = {run["name"]: run for run in json.load(open(sys.argv[1]))}
keys = ("test_accuracy", "test_mrr", "parameters", "seconds")
seen = {name: [run[key] for key in keys] for name, run in runs.items()}
assert seen["grown"] == [61.25, None, 800, 300], seen["grown"]
assert seen["growing"] == [None, None, 550, 50] or abs(seen["growing"][2] - 550) < 1e-9 and seen["growing"][3] == 50, seen["growing"]
assert seen["fitted"] == [91.25, None, 4321, 300] and seen["proved"] == [None, 0.85625, None, 300], seen
assert seen["bare"] == [None] * 4 and seen["torn"] == [None, None, None, 300], seen
' "$folder/out" || fail "results as JSON"
fi

# --- wrong usage ---
run 2 runs --keep 2 runs
expect_part "keep without prune" "$err" "--keep, --older-than, --dry-run and --yes go with --prune"
run 2 runs --prune
expect_part "prune without runs" "$err" "--prune needs the runs to look at"
run 2 runs --prune --keep 0 runs/first
expect_part "keep nothing" "$err" '--keep: "0" is not a whole number in 1..999999'
run 2 runs runs runs
expect_part "two folders" "$err" "one folder at a time"
echo text > runs/stray
run 0 runs --prune --yes runs/no_run runs/stray
expect_text "no run" "$err" "esper runs: runs/no_run is not a run folder (config.ini is missing): left alone
esper runs: runs/stray is not a run folder (config.ini is missing): left alone"
[[ -z $out && -d runs/no_run && -f runs/stray ]] || fail "what is no run was touched"
run 2 runs --prune --yes --dry-run runs/second
expect_part "both" "$err" "--dry-run removes nothing and --yes removes"

# --- folders of others: a project with a config.ini, a run from before there were markers ---
mkdir -p proj/.git
printf '[core]\nbare = false\n' > proj/config.ini
echo ref > proj/.git/HEAD
run 0 runs --prune --yes proj
expect_part "a project" "$err" "proj is not a run folder (its config.ini does not name a kind of run): left alone"
printf '[run]\nkind = hosts\n' > proj/config.ini
run 0 runs --prune --yes proj
expect_part "a project" "$err" "proj has no esper-run.json: left alone; a run from before there were markers is marked when it is resumed"
run 0 runs --prune --yes --keep 1 proj
expect_part "a project" "$err" "proj has no esper-run.json: left alone"
[[ -z $out && -f proj/config.ini && -f proj/.git/HEAD && ! -e proj/lock ]] || fail "a project was touched"
"$make_case_run" runs/mixed 2 || fail "cannot make a run"
mkdir -p runs/mixed/checkpoints/2024
echo mine > runs/mixed/checkpoints/2024/photo
echo mine > runs/mixed/notes.txt
ln -s ../../proj runs/mixed/link
run 0 runs --prune --dry-run runs/mixed
expect_part "foreign files" "$out" "  runs/mixed/notes.txt is not the run's and stays"
[[ -f runs/mixed/config.ini ]] || fail "--dry-run removes"
run 0 runs --prune --yes --json runs/mixed
for name in checkpoints/2024 notes.txt link; do
    expect_part "foreign files" "$out" "\"runs/mixed/$name\""
done
expect_text "what stays" "$(cd runs/mixed && find . -mindepth 1 | sort | xargs)" "./checkpoints ./checkpoints/2024 ./checkpoints/2024/photo ./link ./notes.txt"
[[ -f proj/.git/HEAD ]] || fail "a link was followed"
rm -rf runs/mixed proj
run 2 runs --prune --yes runs/second runs/third
expect_part "missing run" "$err" "there is no run runs/third"
[[ -d runs/second ]] || fail "a run went although another name was wrong"

# --- old checkpoints ---
before=$(find runs -type f | sort)
run 0 runs --prune --keep 1 first
expect_part "preview" "$out" "would remove 1 checkpoint of runs/first, 1"
expect_part "preview" "$out" "in all; nothing is removed without --yes"
expect_text "files after a preview" "$(find runs -type f | sort)" "$before"
run 0 runs --prune --keep 1 --yes runs/first
expect_part "prune" "$out" "removed 1 checkpoint of runs/first, 1"
expect_part "prune" "$out" " freed"
expect_text "kept" "$(find runs/first/checkpoints -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | xargs)" "2 3"
run 0 runs --prune --keep 1 --yes runs/first
expect_text "nothing left" "$out" "runs/first: nothing to remove"

# --- whole runs, by age ---
run 0 runs --prune --older-than 30 --yes runs/second
expect_text "too young" "$out" "runs/second: nothing to remove"
[[ -d runs/second ]] || fail "a young run went"
run 0 runs --prune --older-than 30 runs/first
expect_part "preview of a run" "$out" "would remove runs/first, "
[[ -d runs/first ]] || fail "a run went without --yes"

# --- a run that is going on ---
mkfifo hold
# shellcheck disable=SC2094 # the argument is a word, the other a pipe
"$make_case_run" runs/busy 2 hold < hold > ready &
holder=$!
exec 9> hold
for _ in $(seq 100); do
    [[ -s ready ]] && break
    sleep 0.05
done
run 0 runs
expect_part "active" "$(grep busy <<< "$out")" " running"
run 2 runs --prune --yes runs/first runs/busy
expect_part "active" "$err" "esper runs: runs/busy is in use by process $holder on "
run 2 runs --prune --keep 1 runs/busy
expect_part "active" "$err" "runs/busy is in use by process $holder on "
[[ -d runs/first && -d runs/busy/checkpoints/1 ]] || fail "something went although a run was refused"
exec 9>&-
wait "$holder"
holder=
run 0 runs --prune --yes --json runs/first runs/busy
expect_part "removed" "$out" '"removed": true'
[[ -d runs/first || -d runs/busy ]] && fail "a run stays after --prune --yes"
run 0 runs
expect_part "what is left" "$out" "1 run, "

# --- names of other widths: e with an accent is one column, each of two Han characters two ---
"$make_case_run" "runs/run é" 0 || fail "cannot make a run"
"$make_case_run" "runs/漢字" 0 || fail "cannot make a run"
run 0 runs
expect_part "accent" "$out" $'\nrun é   hosts '
expect_part "wide" "$out" $'\n漢字    hosts '
rm -rf "runs/run é" "runs/漢字"

# --- how they ended ---
"$esper" hosts --task tiny --envs 1 --rounds 1 --threads 1 --quiet --out runs/done > /dev/null
"$esper" hosts --task tiny --envs 1 --rounds 1000000 --threads 1 --quiet --checkpoint.every=1 --out runs/killed > /dev/null &
victim=$!
for _ in $(seq 200); do
    [[ -e runs/killed/checkpoints/2/DONE ]] && break
    sleep 0.05
done
kill -KILL "$victim"
wait "$victim" 2> /dev/null
run 0 runs
if [[ -e runs/done/run.db ]]; then
    [[ $(grep '^done' <<< "$out") =~ " 1/1 ".*" done"$ ]] || fail "a run that is done: $out"
    [[ $(grep '^killed' <<< "$out") =~ /1000000\ .*" killed"$ ]] || fail "a run that was killed: $out"
    n_done=$(find runs/killed/checkpoints -name DONE -printf "%h\n" | sed "s|.*/||" | sort -n | tail -1)
    run 0 hosts --resume runs/killed --rounds $((n_done + 1)) --quiet
    run 0 runs
    [[ $(grep '^killed' <<< "$out") =~ " done"$ ]] || fail "a run that was resumed: $out"
fi
rm -rf runs/done runs/killed

# --- faults from outside ---
ES_FILE_FAULT=unlink:1:EACCES run 1 runs --prune --yes runs/second
expect_part "fault" "$err" "Permission denied"
expect_part "fault" "$err" 'file calls fail on purpose: ES_FILE_FAULT is "unlink:1:EACCES"'
ES_FILE_FAULT="unlink" run 2 runs
expect_part "wrong fault" "$err" 'file fault "unlink"'
run 0 runs --prune --yes runs/second
[[ -d runs/second ]] && fail "the run stays after the second attempt"

finish
