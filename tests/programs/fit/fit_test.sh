#!/usr/bin/env bash
# `esper fit` as a user runs it: results and files, refusals, budgets, Ctrl-C, resuming, threads; and the commands that look
# at such a run.
#
# usage: fit_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
reference=$(cd "$(dirname "$0")/../../.." && pwd)/configs/fit_reference
shipped=$(cd "$(dirname "$0")/../../.." && pwd)/policies/general.safetensors
cd "$folder" || exit 1

small=(--data tiny --candidates 4 --epochs 6 --max-params 4000 --epoch-batches 12 --policy random)
same_network() { # what A B
    local file
    for file in network.json network.safetensors confusion.json; do
        cmp "$2/networks/1/$file" "$3/networks/1/$file" || fail "$1: $file differs"
    done
}

# --- refusals ---
run 2 fit
expect_part "no data" "$err" "there is no data: --data takes"
run 2 fit --data nowhere/at-all
expect_part "no such data" "$err" "nowhere/at-all"
run 2 fit --data tiny --max-params 200
expect_part "too few parameters" "$err" "--max-params 200 is too small for "
run 2 fit --data tiny --task cifar_baseline --max-params 500
expect_part "a host that is too large" "$err" 'host "cifar_baseline" has 6274 parameters for this data, more than --max-params 500'
run 2 fit --data tiny --batch 9000
expect_part "a batch that is too large" "$err" "larger than the 8000 training samples"
run 2 fit --data tiny --policy heuristics
expect_part "no such policy" "$err" 'no policy "heuristics"'
echo "2 0 germinate r0c0 norm" > schedule
run 2 fit --data tiny --policy script:schedule
expect_part "a schedule for several candidates" "$err" "script:FILE goes with --candidates 1, not 4"
run 2 fit --data tiny --compare 2 --max-seconds 5
expect_part "a comparison of fits of other lengths" "$err" "--compare needs fits of equal length"
run 2 fit --data tiny --candidates 0
expect_part "no candidates" "$err" "--candidates: 0 is outside 1..256"
if ! "$esper" info | grep -q "cuda:0"; then
    run 2 fit --data tiny --device cuda --out cuda
    expect_part "no GPU" "$err" "cuda:0 was asked for"
fi
[[ ! -e runs && ! -e cuda ]] || fail "a refused fit leaves a folder"

# --- a dry run ---
run 0 fit "${small[@]}" --dry-run
expect_part "dry run" "$out" "# hosts       For images of 16 x 16 x 1, 10 classes and at most 4000 parameters"
expect_part "dry run" "$out" "# policy      random: it was asked for"
expect_part "dry run" "$out" "# time"
[[ ! -e runs ]] || fail "a dry run makes a folder"

# --- the policy of a resumed fit is the one that it began with ---
run 0 fit --data tiny --task tiny --candidates 1 --epochs 3 --epoch-batches 2 --policy script:schedule --out scripted
run 0 fit --resume scripted
echo "3 0 wait" >> schedule
run 2 fit --resume scripted
expect_part "another policy" "$err" "the policy"

# --- rails ---
quick=(--data tiny --task tiny --candidates 2 --epoch-batches 2 --policy random --quiet)
run 0 fit "${quick[@]}" --epochs 6 --out plain
railed=(--rails.on=on --rails.epoch_budget_ms=1e6 --rails.hook_budget_ms=1e6 --rails.controller_deadline_ms=1e6
    --rails.seed_deadline_ms=1e6)
run 0 fit "${quick[@]}" --epochs 6 "${railed[@]}" --out railed
same_network "rails that hold" plain railed
run 0 query railed --csv "SELECT count(*), sum(latency_ms > 0), max(breaker), max(is_conservative), max(n_failed) FROM epochs"
expect_part "epochs" "$out" "6,6,1.0,0.0,0.0"
run 0 query railed --csv "SELECT count(*) FROM trainer_events"
expect_text "events of a quiet fit" "$(tr -d '\r' <<< "$out")" "count(*)
0"
# seeds: one row of each that lives in an epoch; shares of a candidate and its host are at most 1
run 0 fit "${quick[@]}" --policy eager --epochs 8 --out measured
run 0 query measured --csv "SELECT count(*) > 4, min(alpha) >= 0 AND max(alpha) <= 1, min(weight) >= 0.1, max(weight) <= 1,
    sum(gradient_norm > 0) > 4, count(conflicts) + count(conflict_ratio) + count(teacher_share) FROM seed_metrics"
expect_part "seeds of a fit" "$out" "1,1,1,1,1,0"
run 0 query measured --csv "SELECT max(total) < 1, min(total) > 0 FROM (SELECT sum(share) AS total FROM seed_metrics WHERE share IS NOT NULL
    GROUP BY round, env)"
expect_part "shares of seeds" "$out" "1,1"
# as many rows as env_stepped has seeds, and each is a seed that germinated
run 0 query measured --csv "SELECT (SELECT sum(n_seeds) FROM event_env_stepped) - (SELECT count(*) FROM seed_metrics),
    (SELECT count(*) FROM seed_metrics WHERE seed_id NOT IN (SELECT seed_id FROM seeds))"
expect_part "all seeds" "$out" "0,0"
# as metrics with rails: those of the living seeds are the same numbers
run 0 fit "${quick[@]}" --policy eager --epochs 8 --rails.on=on --out labelled
run 0 query labelled --csv "SELECT count(*) > 4, sum(m.value = s.alpha) = count(*) FROM seed_metrics s JOIN event_metric m
    ON m.round = s.round AND m.name = 'kasmina.seed.alpha' AND m.seed_id = 'env' || s.env || '.' || s.slot"
expect_part "alpha of seeds" "$out" "1,1"
run 0 query labelled --csv "SELECT count(DISTINCT name), min(value) >= 0 FROM event_metric WHERE name LIKE 'kasmina.seed.%'"
expect_part "metrics of seeds" "$out" "3,1"
run 0 fit "${quick[@]}" --policy eager --epochs 8 --telemetry.level=off --out unmeasured
same_network "seeds that are measured" measured unmeasured
# a disk that fills up: what was saved keeps its bytes, the end says what to do, and going on gives the same bytes
saving=(--checkpoint.every=1 --checkpoint.keep=9 --telemetry.level=off)
run 0 fit "${quick[@]}" --epochs 6 "${saving[@]}" --out spacious
ES_FILE_FAULT=disk:400000 run 1 fit "${quick[@]}" --epochs 6 "${saving[@]}" --out full
expect_part "a full disk" "$err" "No space left on device"
expect_part "a full disk" "$err" "esper fit: "
[[ -e full/checkpoints/1/DONE && ! -e full/checkpoints/6/DONE ]] || fail "the disk was full too early, or never"
diff -r spacious/checkpoints/1 full/checkpoints/1 || fail "a full disk changes a checkpoint"
run 0 fit --resume full --quiet
diff -r spacious/checkpoints/6 full/checkpoints/6 || fail "a fit whose disk was full ends otherwise"
same_network "a full disk" spacious full
# rollback that nothing ends is warned of, and its memory is planned for
run 0 fit "${quick[@]}" --epochs 6 --dry-run
plain_memory=$(grep "in all" <<< "$out")
run 0 fit "${quick[@]}" --epochs 6 --dry-run --rails.on=on --rails.rollback=on
expect_part "rollback without an end" "$err" "warning: rails.rollback is on and rails.halt_failures is 0"
[[ $(grep "in all" <<< "$out") != "$plain_memory" ]] || fail "states for rollback take no memory: $plain_memory"
run 0 fit "${quick[@]}" --epochs 6 --dry-run --rails.on=on --rails.rollback=on --rails.halt_failures=3
[[ $err != *"halt_failures is 0"* ]] || fail "a warning for nothing: $err"
# no epoch can keep a budget of a microsecond: conservative after the first, the breaker open after the third, then the end
run 1 fit "${quick[@]}" --epochs 6 --rails.on=on --rails.epoch_budget_ms=0.001 --rails.halt_failures=4 --out halted
expect_part "the summary of a halted fit" "$out" "the rails ended the fit at epoch 4 (breaker_open); go on with: esper fit --resume "
expect_part "the end of a halted fit" "$err" "esper fit: the rails ended the fit at epoch 4: breaker_open"
run 0 query halted --csv "SELECT max(epoch), max(n_failed), max(breaker), min(is_conservative) FROM epochs"
expect_part "epochs of a halted fit" "$out" "4,4.0,2.0,1.0"
run 0 query halted --csv "SELECT name, count(*) FROM trainer_events GROUP BY name"
expect_text "events of a halted fit" "$(tr -d '\r' <<< "$out")" "name,count(*)
tolaria.breaker_opened,1
tolaria.conservative_mode_entered,1
tolaria.emergency.escalated,2
tolaria.emergency.halt,1
tolaria.epoch_budget_exceeded,4"
run 0 query halted --csv "SELECT outcome, detail FROM event_run_ended"
expect_part "the record of a halted fit" "$out" "halted,breaker_open"
run 0 runs .
expect_part "the list of runs" "$(grep halted <<< "$out")" " halted"
[[ -e halted/networks/1/network.json ]] || fail "a halted fit has no network"
run 2 signal halted
expect_part "a fit that has ended" "$err" "halted: no fit with rails is going on there (no shared memory /esper-halted-"
run 2 signal nowhere
expect_part "no such run" "$err" "nowhere: No such file or directory"
# the level rises while it goes on; it is watched from its start to its end
"$esper" fit "${quick[@]}" --epochs 400 --rails.on=on --rails.epoch_budget_ms=0.001 --out signalled &
pid=$!
for _ in {1..600}; do "$esper" signal signalled 2> /dev/null | grep -q "level 3 (conservative): breaker_open" && break; sleep 0.1; done
"$esper" signal signalled --watch > watched &
watcher=$!
for _ in {1..100}; do [[ -s watched ]] && break; sleep 0.1; done
run 0 signal signalled --json
expect_part "a signal" "$out" '{"raised": true, "level": 3, "level_name": "conservative", "reason": "breaker_open", "seconds": '
kill -INT "$pid"
wait "$pid"
wait "$watcher" || fail "the watcher failed"
expect_part "a watched fit" "$(cat watched)" "level 3 (conservative): breaker_open, "
expect_part "a watched fit" "$(cat watched)" "the fit has ended"
expect_part "a signal" "$out" '"deadline_missed": false'
# one that is killed looks dead, to those who ask and to those who watch; the next takes its place
"$esper" fit --resume signalled --quiet 2> /dev/null &
pid=$!
for _ in {1..600}; do "$esper" signal signalled > /dev/null 2>&1 && break; sleep 0.1; done
"$esper" signal signalled --watch > watched &
watcher=$!
for _ in {1..100}; do [[ -s watched ]] && break; sleep 0.1; done
kill -KILL "$pid"
wait "$pid" 2> /dev/null
wait "$watcher" || fail "the watcher of a killed fit failed"
expect_part "a watched fit that is killed" "$(tail -n 1 watched)" "the fit was killed: its process is gone"
run 0 signal signalled --json
expect_part "the signal of a killed fit" "$out" '"abandoned": true'
# lines for a supervisor: one when the level rises, and no more than a minute allows
late=(--rails.on=on --rails.epoch_budget_ms=0.001 --rails.halt_failures=4)
run 1 fit "${quick[@]}" --epochs 6 "${late[@]}" --rails.emergency_file="$PWD/emergencies" --out told
expect_text "lines of emergencies" "$(sed 's/.*"level":\([0-9]\),"reason":"\([a-z_]*\)".*"epoch":\([0-9]*\).*/\1 \2 \3/' emergencies)" \
    "2 epoch_budget 1
4 breaker_open 4"
run 0 fit --resume told --rails.epoch_budget_ms=0 --rails.breaker_seconds=0 --quiet
expect_part "the line of a resumed fit" "$(tail -n 1 emergencies)" '"level":3,"reason":"resumed",'
expect_part "the line of a resumed fit" "$(tail -n 1 emergencies)" '"epoch":5,'
expect_text "lines with that of a resumed fit" "$(wc -l < emergencies)" 3
run 1 fit "${quick[@]}" --epochs 6 "${late[@]}" --rails.emergency_file="$PWD/few" --rails.emergency_per_minute=1 --out few-told
expect_text "lines within the limit" "$(wc -l < few)" 1
run 0 query few-told --csv "SELECT name, max(value) FROM event_metric WHERE name LIKE 'tolaria.emergency.b%' GROUP BY name"
expect_part "counters of messages" "$(tr -d '\r' <<< "$out")" "tolaria.emergency.broadcast_failures_total,0.0
tolaria.emergency.broadcasts_total,1.0
tolaria.emergency.bypass_applied_total,0.0
tolaria.emergency.bypass_dropped_total,1.0"
run 1 fit "${quick[@]}" --epochs 6 "${late[@]}" --rails.emergency_file="$PWD/no/such/place" --out untold
run 0 query untold --csv "SELECT round, level, attributes FROM trainer_events WHERE name = 'tolaria.emergency.dispatch_error' LIMIT 1"
expect_part "a message that fails" "$out" "1,critical,"
expect_part "a message that fails" "$out" "No such file or directory"
# in epoch 4 the first line again, that of the halt, and once more before the end
run 0 query untold --csv "SELECT round, count(*) FROM trainer_events WHERE name = 'tolaria.emergency.dispatch_error' GROUP BY round"
expect_part "messages that are tried again" "$(tr -d '\r' <<< "$out")" "3,1
4,3"
# whoever resumes it wants it to go on; other budgets may be set then
run 0 fit --resume halted --rails.epoch_budget_ms=0 --rails.breaker_seconds=0 --quiet
run 0 query halted --csv "SELECT max(epoch), max(n_failed), sum(is_conservative = 0) FROM epochs"
expect_part "epochs of a fit that was resumed" "$out" "6,4.0,2"

# a limit that the host's gradient exceeds in epoch 3: undone, it comes again with the same bits, until the fit halts
run 1 fit "${quick[@]}" --epochs 8 --epoch-batches 20 --rails.on=on --rails.rollback=on --rails.rollback_every=1 --rails.gradient_limit=0.5 --rails.halt_failures=4 --out undone
run 0 query undone --csv "SELECT count(*), count(DISTINCT attributes) FROM trainer_events WHERE name = 'esper.rails.gradient_exploded' AND round > 2"
expect_part "epochs that are undone and come again" "$out" "4,1"
run 0 query undone --csv "SELECT count(*) FROM trainer_events WHERE name = 'tolaria.rollback.restored' AND attributes LIKE '%fast%'"
expect_part "epochs that are undone from memory" "$out" "4"
run 0 query undone --csv "SELECT value FROM metrics WHERE name = 'tolaria.rollback.fast_hits_total' ORDER BY round DESC LIMIT 1"
expect_part "the counter" "$out" "4.0"
expect_part "the record" "$(cat undone/wal.json)" '{"wal_version": 1, "epoch": 6, "checkpoint": "checkpoints/6", "crc32c": "'
# a session that goes back to its first checkpoint from disk names that one in the record, whatever earlier ones left
rm undone/wal.json
run 1 fit --resume undone --rails.rollback_mib=0 --rails.halt_failures=1 --quiet
run 0 query undone --csv "SELECT count(*) FROM trainer_events WHERE name = 'tolaria.rollback.restored' AND attributes LIKE '%full%'"
expect_part "an epoch that is undone from disk" "$out" "1"
# with rails that roll back nothing the bits are the same
run 0 fit "${quick[@]}" --epochs 6 "${railed[@]}" --rails.rollback=on --out rolling
same_network "rollback that is not needed" plain rolling

# --- a policy that is gone when the fit goes on: an error, and the run is closed ---
mkdir chosen
cp "$shipped" chosen/
ES_POLICY_DIR=$PWD/chosen run 0 fit --data tiny --task tiny --candidates 2 --epoch-batches 2 --max-params 3000 --epochs 24 \
    --target-accuracy 1 --quiet --out orphan
rm chosen/*
ES_POLICY_DIR=$PWD/chosen run 2 fit --resume orphan --target-accuracy 100 --quiet
expect_part "a policy that is gone" "$err" "general.safetensors"

# --- the reference workload: its times are reported, durable writes apart ---
run 0 fit --config "$reference.ini" --data "$reference" --task "$reference/host.ini" --epochs 400 --out reference
expect_part "times" "$err" "epochs: first "
expect_part "durable writes" "$err" " durable writes: p50 "
run 0 query reference --csv "SELECT name, value FROM metrics WHERE name LIKE 'esper.fit.epoch_p%' OR name LIKE 'esper.fit.write_p%'"
python3 - "$out" << 'PYTHON' || fail "times: $out"
import sys
ms = {name: float(value) for name, value in (line.split(",") for line in sys.argv[1].split("\n")[1:] if line)}
assert 0 < ms["esper.fit.epoch_p50_ms"] <= ms["esper.fit.epoch_p95_ms"] <= ms["esper.fit.epoch_p99_ms"]
assert 0 < ms["esper.fit.write_p50_ms"] <= ms["esper.fit.write_p95_ms"]
PYTHON
run 0 query reference --csv "SELECT count(*) FROM epochs"
expect_part "epochs of the reference workload" "$out" "400"

# --- a comparison, stopped and gone on with ---
compared=(--data tiny --candidates 2 --epochs 2 --max-params 4000 --epoch-batches 4 --compare 2)
run 0 fit "${compared[@]}" --out compared --json
python3 - "$out" << 'PYTHON' || fail "the comparison: $out"
import json, sys
found = json.loads(sys.argv[1])
for variant in "fit host wider deeper scratch random search".split():
    assert 0 <= found[variant]["test_accuracy"][0] <= 100, variant
    assert found[variant]["diverged"] == 0, variant
assert found["fit"]["against_fit"][0] == 0
first, second = (json.load(open(f"compared/networks/{i}/network.json"))["made_by"] for i in (1, 2))
assert second["seed"] == first["seed"] + 1 and second["data_sha256"] == first["data_sha256"], second
assert second["command"] == "fit" and second["policy"] == first["policy"], second
assert second["test_accuracy"] > 0 and second["validation_accuracy"] > 0, second
PYTHON
expect_part "progress of a comparison" "$err" "comparison, seed 2 of 2: its host alone, test accuracy "
before=$out
python3 - compared/comparison.json << 'PYTHON'
import json, sys
found = json.load(open(sys.argv[1]))
found["search"][1] = found["wider"][0] = None
json.dump(found, open(sys.argv[1], "w"))
PYTHON
run 0 fit --resume compared --json --quiet
expect_text "progress of a quiet comparison" "$err" ""
[[ $out == "$before" ]] || fail "a comparison that is gone on with ends otherwise: $out, not $before"
run 0 fit --resume compared
expect_part "comparison" "$out" "comparison, 2 seeds, test accuracy in %"
run 0 fit --resume compared --compare 1
expect_part "a comparison of fewer seeds" "$out" "comparison, 1 seed, test accuracy in %"
run 0 fit --resume compared --compare 2 --json
expect_text "outcomes that are known" "$(grep -c "comparison, seed" <<< "$err")" 0
[[ $out == "$before" ]] || fail "a comparison of more seeds again: $out, not $before"
# seeds that diverged are counted and left out
python3 - compared/comparison.json << 'PYTHON'
import json, sys
found = json.load(open(sys.argv[1]))
nothing = {"test_accuracy": None, "validation_accuracy": None, "parameters": None}
found["wider"] = [nothing, None]
found["fit"][1] = found["random"][0] = nothing
for variant in "host", "deeper", "scratch":
    found[variant][1] = None
json.dump(found, open(sys.argv[1], "w"))
PYTHON
run 0 fit --resume compared --quiet
[[ $out =~ "a wider host of the final size         diverged"$'\n' ]] || fail "diverged: $out"
[[ $out =~ "this fit  "[^$'\n']*"without 1 seed that diverged"$'\n' ]] || fail "diverged: $out"
[[ $out =~ "random growth"[^$'\n']*"without 1 seed that diverged"$'\n' ]] || fail "diverged: $out"
[[ $out != *nan* ]] || fail "diverged: $out"
run 0 fit --resume compared --quiet --json
python3 - "$out" << 'PYTHON' || fail "diverged: $out"
import json, sys
found = json.loads(sys.argv[1])
assert found["wider"]["test_accuracy"] == [None] * 3 and found["wider"]["diverged"] == 1
assert found["fit"]["diverged"] == 1 and found["fit"]["test_accuracy"][0] == found["test_accuracy"]
assert found["host"]["diverged"] == 0 and found["search"]["diverged"] == 0
PYTHON

# --- a whole run ---
run 0 fit "${small[@]}" --out whole --threads 1
whole=$out
expect_part "what is fitted" "$err" "4 candidates, 6 epochs of 12 updates; grown by random (it was asked for)"
expect_part "progress" "$err" $'\ncandidate 0: '
expect_part "progress" "$err" $'\ncandidates dropped: 2, left: 2\n'
[[ $err =~ $'\n'"epoch 6/6  best "[0-9.]+" %  "[0-9,]+" parameters"$'\nepochs: first ' ]] || fail "progress: $err"
expect_part "drawing" "$out" "mean over pixels, linear"
expect_part "recall" "$out" "recall by class:"
expect_part "confusions" "$out" "confusions (row: the sample's class"
expect_part "accuracy" "$out" "on 2000 samples that decided nothing; validation"
expect_part "where" "$out" "written to whole/networks/1"
expect_part "way on" "$out" "predict with it: esper predict whole INPUT..."
[[ $(sed -n 's/^ *in all *//p' <<< "$out") -le 4000 ]] || fail "more parameters than asked for: $out"
run 0 fit "${small[@]}" --out two --threads 2 --quiet
same_network "two threads" whole two
expect_text "results with two threads" "${out// two/ whole}" "$whole"

# its network is one to predict with, and scores what was printed
python3 - << 'PYTHON'
import struct

with open("images.idx", "wb") as file:
    file.write(struct.pack(">IIII", 2051, 40, 16, 16) + bytes(i * 7 % 256 for i in range(40 * 256)))
PYTHON
run 0 predict whole images.idx
expect_text "predictions" "$(wc -l <<< "$out")" 41
mkdir pictures
if "$esper" data tiny --contact-sheet pictures/sheet.png > /dev/null; then
    run 0 predict whole pictures/
    expect_part "names in a folder" "$out" $'\npictures/sheet.png\t'
fi
run 0 export whole --c exported
run 0 fit "${small[@]}" --out json --json --quiet
same_network "as JSON" whole json
python3 - "$folder/out" whole/networks/1/network.json << 'PYTHON' || fail "fit --json: $out"
import json, sys

root, network = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
made = network["made_by"]
assert root["run"] == "json" and root["data"] == "tiny" and root["policy"] == "random", root
assert root["epochs"] == 6 and 1 <= root["epoch"] <= 6 and 0 <= root["candidate"] < 4, root
low, high = root["test_interval"]
assert low < root["test_accuracy"] < high and high - low < 5, root
assert len(root["recall"]) == 10 and all(0 <= r <= 100 for r in root["recall"]), root
# classes have 200 test samples each
assert abs(sum(root["recall"]) / 10 - root["test_accuracy"]) < 1e-6, root
assert 0 < root["parameters"] <= 4000, root
for key in "test_accuracy", "validation_accuracy":
    assert abs(root[key] - made[key]) < 1e-9, (key, root, made)
PYTHON

# what it confuses is written beside it, with the numbers that were printed
python3 - "$folder/out" whole/networks/1 << 'PYTHON' || fail "confusion.json: $(head -c 400 whole/networks/1/confusion.json)"
import base64, json, sys

root = json.load(open(sys.argv[1]))
network, confusion = (json.load(open(f"{sys.argv[2]}/{name}.json")) for name in ("network", "confusion"))
assert confusion["format"] == "esper.confusion.1" and confusion["split"] == "test", confusion["format"]
assert confusion["tensors_sha256"] == network["tensors_sha256"] and confusion["classes"] == network["classes"]
cells = {(label, found): n for label, found, n in confusion["cells"]}
assert sum(cells.values()) == confusion["samples"] == 2000
assert sum(n for (label, found), n in cells.items() if label == found) == confusion["correct"]
assert abs(100 * confusion["correct"] / confusion["samples"] - root["test_accuracy"]) < 1e-9
for k, recall in enumerate(root["recall"]):
    assert abs(cells.get((k, k), 0) / 2 - recall) < 1e-6, (k, recall)  # of 200 samples
mistakes, picture = confusion["mistakes"], confusion["picture"]
assert picture == {"channels": 1, "height": 16, "width": 16}, picture
assert 0 < len(mistakes) <= 24 and len({m["index"] for m in mistakes}) == len(mistakes)
assert [m["probability"] for m in mistakes] == sorted((m["probability"] for m in mistakes), reverse=True)
for mistake in mistakes:
    assert cells[mistake["label"], mistake["predicted"]] > 0 and mistake["label"] != mistake["predicted"], mistake
    assert 0.1 <= mistake["probability"] <= 1 and len(base64.b64decode(mistake["pixels"], validate=True)) == 256, mistake
PYTHON

# --- the commands that look at runs ---
run 0 runs .
expect_text "runs" "$(grep -cE '^(whole|two|json) +fit +6/6 .* done$' <<< "$out")" 3
run 0 diff whole two
expect_part "diff" "$out" "whole"
expect_text "decisions in the database" \
    "$(ask whole "select (select count(*) from decisions where op = 'GERMINATE' and is_success) - (select count(*) from raw_events where event = 'seed_germinated')")" 0
((  $(ask whole "select count(*) from raw_events where event = 'seed_germinated'") > 0 )) || fail "nothing germinated"
expect_text "rounds in the database" "$(ask whole "select count(*) || ' ' || count(distinct round) from rounds")" "6 6"
expect_text "the best in the database" \
    "$(ask whole "select round(max(value), 2) from metrics where name = 'esper.fit.best_accuracy'")" \
    "$(sed -n 's/.*; validation \([0-9.]*\) %$/\1/p' <<< "$whole" | sed 's/0$//')"
run 0 fit --resume whole --quiet
expect_text "a resumed run that is done" "$out" "$whole"
run 2 fit --resume whole --epochs 8 # refused before anything is written
expect_part "other epochs" "$err" "[run] rounds is 6 in the run that is resumed and cannot become 8"
run 0 fit --resume whole --quiet
expect_text "a run that refused other epochs" "$out" "$whole"
run 2 fit --resume whole --candidates 8
expect_part "other candidates" "$err" "[fit] candidates is 4 in the run that is resumed"
run 2 grow --resume whole
expect_part "another command" "$err" "\`esper fit --resume whole\` goes on with it"

# data, labels, host and run are found from another directory, too
mkdir data elsewhere
write_npy data/images.npy 300,8,8 'i * i // 64 % 256'
write_npy data/answers.npy 300 'i % 3'
printf '[host]\nname = mine\n[block0]\nchannels = 4\npool = max\n[block1]\nchannels = 6\n' > data/host.ini
npy=(--data images.npy --labels answers.npy --task host.ini --candidates 2 --epochs 3 --checkpoint.every=1 --quiet)
(cd data && "$esper" fit "${npy[@]}" --out ../npy > /dev/null) || fail "images in an array"
rm -r npy/checkpoints/3
(cd elsewhere && "$esper" fit --resume ../npy --quiet > ../npy.txt) || fail "resumed elsewhere"
(cd data && "$esper" fit "${npy[@]}" --out ../npy-whole > /dev/null)
same_network "resumed elsewhere" npy npy-whole
expect_part "its host" "$(cat npy/networks/1/network.json)" '"mine"'

# --- rows of numbers, which augmentation leaves alone ---
python3 - << 'PYTHON'
with open("rows.csv", "w") as file:
    file.write("a,b,label\n" + "".join(f"{i % 7},{i % 5},{'no' if i % 7 < 3 else 'yes'}\n" for i in range(200)))
PYTHON
run 0 fit --data rows.csv --max-params 300 --candidates 1 --epochs 2 --out rows
[[ $err != *"no effect"* ]] || fail "a note that was not asked for: $err"
run 0 fit --data rows.csv --max-params 300 --candidates 1 --epochs 2 --recipe.erase=0.5 --out erased
expect_text "a note" "$(grep -c "^note: pad, flip and erase have no effect on rows of numbers$" <<< "$err")" 1

# --- few rows: the network that is kept is a late one, also when its fit was killed after a better epoch ---
python3 - << 'PYTHON'
with open("noisy.csv", "w") as file:
    file.writelines(f"{i * 37 % 101},{i * 53 % 97},{i * 7919 % 1009 % 10 < 3 or i * 37 % 101 > 50}\n" for i in range(120))
PYTHON
noisy=(--data noisy.csv --max-params 300 --candidates 2 --epochs 30 --checkpoint.every=1 --checkpoint.keep=100 --quiet)
run 0 fit "${noisy[@]}" --out noisy --json
python3 -c 'import json, sys; assert json.loads(sys.argv[1])["epoch"] > 20' "$out" || fail "an early network: $out"
better=$(grep -l top_accuracy noisy/checkpoints/*/rank0.json | head -1)
[[ -n $better ]] || fail "no epoch of the noisy rows is better than a later one"
cp -r noisy noisy-whole
for checkpoint in noisy/checkpoints/*; do
    (($(basename "$checkpoint") <= $(basename "$(dirname "$better")"))) || rm -r "$checkpoint"
done
run 0 fit --resume noisy --quiet
same_network "resumed after a better epoch" noisy noisy-whole

# killed at any file that it puts in place, a fit never leaves the confusions of another network
for checkpoint in noisy/checkpoints/*; do
    (($(basename "$checkpoint") <= 27)) || rm -r "$checkpoint"
done
for ((n = 2; n <= 34; n += 2)); do
    cp -r noisy noisy-killed
    rm noisy-killed/networks/1/network.*
    cp "$(find noisy-killed/checkpoints/27 -name network.json)" "$(find noisy-killed/checkpoints/27 -name network.safetensors)" \
        noisy-killed/networks/1
    { ES_FILE_FAULT=rename:$n:kill "$esper" fit --resume noisy-killed --quiet > /dev/null; } 2> /dev/null
    python3 - noisy-killed/networks/1 << 'PYTHON' || fail "killed at file $n: the confusions are of another network"
import json, os, sys

network, confusion = (sys.argv[1] + f"/{name}.json" for name in ("network", "confusion"))
known = json.load(open(network))["tensors_sha256"]
is_as_it_was = known == json.load(open("noisy-killed/checkpoints/27/network.json"))["tensors_sha256"]
assert is_as_it_was or not os.path.exists(confusion) or json.load(open(confusion))["tensors_sha256"] == known
PYTHON
    run 0 fit --resume noisy-killed --quiet
    same_network "resumed after a kill at file $n" noisy-killed noisy-whole
    rm -r noisy-killed
done

# --- budgets ---
many=(--data tiny --candidates 4 --epochs 500 --max-params 4000 --epoch-batches 12 --policy random --quiet)
run 0 fit "${many[@]}" --target-accuracy 14 --out target
n=$(ask target "select count(*) from rounds")
((n < 100)) || fail "--target-accuracy 14 takes $n epochs"
cp -r target/networks target-networks
run 0 fit --resume target --quiet
expect_text "epochs of a resumed run that is done" "$(ask target "select count(*) from rounds")" "$n"
cmp target-networks/1/network.safetensors target/networks/1/network.safetensors || fail "a resumed run that is done trains on"
# another target, and no target at all, are gone on to
run 0 fit --resume target --quiet --target-accuracy 18
((n < $(ask target "select count(*) from rounds"))) || fail "a higher target ends at the same epoch"
run 0 fit "${many[@]}" --max-seconds 0.3 --out seconds
n=$(ask seconds "select count(*) from rounds")
((n < 400)) || fail "--max-seconds 0.3 takes $n epochs"
run 0 fit --resume seconds --quiet
expect_text "epochs of a resumed run that is done" "$(ask seconds "select count(*) from rounds")" "$n"
# reading of data counts, and earlier sessions do; a first epoch is always run
seconds_of() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["values"]["seconds"]["real"])' "$1/checkpoints/$2/rank0.json"; }
run 0 fit "${many[@]}" --max-seconds 0.001 --out instant
expect_text "epochs within no time" "$(ask instant "select count(*) from rounds")" 1
before=$(seconds_of instant 1)
run 0 fit --resume instant --max-seconds "$before" --quiet
expect_text "epochs of a resumed run that is late" "$(ask instant "select count(*) from rounds")" 1
in_epochs=$(ask instant "select sum(seconds) from rounds")
python3 -c 'import sys; exit(not float(sys.argv[1]) > float(sys.argv[2]))' "$before" "$in_epochs" || fail "$before s in all, $in_epochs s in epochs"

# without --epochs there are as many as end in time, the same ones after a resume; 20 without a time
run 0 fit --data tiny --candidates 2 --max-params 4000 --epoch-batches 12 --max-seconds 1 --out timed
expect_part "epochs by time" "$err" "(as many as --max-seconds 1 allows; with all candidates one takes "
n=$(sed -n 's/^rounds = //p' timed/config.ini)
((n >= 1 && n <= 200)) || fail "epochs by time: $n"
run 0 fit --resume timed --quiet
expect_text "epochs of a resumed run" "$(sed -n 's/^rounds = //p' timed/config.ini)" "$n"
run 0 fit --data tiny --candidates 1 --max-params 4000 --epoch-batches 2 --quiet --out twenty
expect_text "epochs by default" "$(ask twenty "select count(*) from rounds")" 20
run 0 fit --help
[[ $out != *round* ]] || fail "rounds in the help: $(grep round <<< "$out")"

# --- Ctrl-C ---
# interrupt NAME EVENT ARGUMENTS...: SIGINT once there is such an event; the exit code is that of every interrupted run
interrupt() {
    local name=$1 event=$2 child code
    shift 2
    "$esper" fit "$@" --telemetry.jsonl=on --out "$name" > out.txt 2> err.txt &
    child=$!
    for ((i = 0; i < 600; i++)); do
        grep -qs "$event" "$name/events.jsonl" && break
        sleep 0.05
    done
    kill -INT $child
    wait $child
    code=$?
    out=$(cat out.txt)
    err=$(cat err.txt)
    [[ $code == 130 ]] || fail "interrupted: exit code $code; $err"
}
interrupt stopped round_completed --data tiny --candidates 4 --epochs 500 --max-params 4000 --epoch-batches 12 --policy random
expect_part "interrupted" "$err" "of 500 epochs are saved. Go on with: esper fit --resume stopped"
expect_part "interrupted" "$err" "the best network so far, "
expect_part "interrupted" "$err" "is in stopped/networks/1"
run 0 predict stopped images.idx

# a long epoch is dropped after the seconds that it may take
start=$SECONDS
interrupt dropped round_progressed --data tiny --candidates 2 --epochs 2 --epoch-batches 90000 --run.stop_seconds=1
((SECONDS - start < 60)) || fail "a long epoch is not dropped"
expect_part "dropped" "$err" "the current epoch was dropped; nothing was saved yet. Start again with: esper fit --resume dropped --restart"

# --- rows ---
python3 - << 'PYTHON'
with open("mixed.csv", "w") as file:  # two classes that cannot be told apart, so that there are mistakes
    file.write(",".join(f"c{k}" for k in range(11)) + ",kind\n")
    for i in range(300):
        file.write(",".join(str((i * (k + 3) * 37) % 101 / 10) for k in range(11)) + f",{'<even>' if i * i % 7 < 3 else 'odd'}\n")
PYTHON
run 0 fit --data mixed.csv --max-params 300 --epochs 4 --candidates 2 --quiet --out mixed
python3 - mixed/networks/1 << 'PYTHON' || fail "confusions of rows"
import json, sys

network, confusion = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("network", "confusion"))
assert confusion["tensors_sha256"] == network["tensors_sha256"] and "picture" not in confusion
assert confusion["mistakes"], confusion
for mistake in confusion["mistakes"]:
    values = mistake["values"]
    assert "pixels" not in mistake and [v["column"] for v in values] == sorted({v["column"] for v in values}), mistake
    assert len(values) == 8 and all(v["name"] == f"c{v['column']}" and 0 <= v["value"] <= 10.001 for v in values), mistake
PYTHON

# --- removal ---
echo mine > two/networks/1/notes.txt
run 0 runs --prune --yes whole json target seconds stopped
run 0 runs --prune --yes two
for name in whole json target seconds stopped; do
    [[ ! -e $name ]] || fail "$(find $name)"
done
[[ -e two/networks/1/notes.txt && ! -e two/networks/1/network.json ]] || fail "$(find two)"
finish
