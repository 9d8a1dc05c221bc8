#!/usr/bin/env bash
# `esper profile`: tables, JSON, trace, schedule, messages.
#
# usage: profile_command_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"

small=(--task tiny --envs 2 --threads 2 --step-batches 2 --validation-images 100)

# --- usage ---
run 0 profile --help
expect_part "help" "$out" "--trace FILE"
expect_part "help" "$out" "example: esper profile --task"
run 2 profile --active 0
expect_part "active" "$err" "--active: 0 is outside 1..100000"
run 2 profile --warm 3
expect_part "near miss" "$err" 'unknown option "--warm"'
run 2 profile --envs 0
expect_part "envs" "$err" "--envs: 0 is outside 1..4096"
run 2 profile "${small[@]}" --trace "$folder/nowhere/trace.json"
expect_part "trace" "$err" "--trace: cannot write $folder/nowhere/trace.json"
expect_text "nothing is printed" "$out" ""
run 2 profile "${small[@]}" --device nothing
run 2 profile "${small[@]}" --policy script:"$folder/none.txt"
expect_part "script" "$err" "none.txt"

# --- tables ---
run 0 profile "${small[@]}" --policy wait
expect_part "title" "$out" "tiny, 2 environments, policy wait, on cpu"
expect_part "schedule" "$out" "5 steps after 1 of waiting and 2 of warm-up"
for phase in train validate measure decide; do
    expect_part "phases" "$out" $'\n'"$phase "
done
expect_part "operations" "$out" $'\nvector_engine'
expect_part "idle" "$out" "with no operation running"
expect_part "counts" "$out" "per step: launches 0.0, copies 0.0, synchronisations 0.0, allocations 0.0"
expect_part "bytes" "$out" "bytes copied per step: to device 0, from device 0, on device 0"
[[ -z $err ]] || fail "stderr is \"$err\""

# plain kernels show by name, and a learned policy's network beside them
run 0 profile "${small[@]}" --unfused --active 1 --warmup 0 --wait 0
for operation in conv2d_forward batchnorm_statistics lstm_forward; do
    expect_part "operations" "$out" $'\n'"$operation "
done
grep -qE '^conv2d_forward .* \[1, (64|100), ' <<< "$out" || fail "no shape of the result of a convolution: $out"

# --- more steps than an episode has: the next one follows ---
run 0 profile "${small[@]}" --policy random --episode-steps 3 --wait 2 --warmup 3 --active 4
expect_part "schedule" "$out" "4 steps after 2 of waiting and 3 of warm-up"

# --- JSON and trace ---
run 0 profile "${small[@]}" --policy heuristic --active 3 --json --trace "$folder/trace.json"
cp "$folder/out" "$folder/profile.json"
expect_part "where the trace is" "$err" "$folder/trace.json"
if command -v python3 > /dev/null; then
    python3 - "$folder/profile.json" "$folder/trace.json" << 'END' || fail "profile or trace is not as expected"
import json, sys
profile, trace = (json.load(open(path)) for path in sys.argv[1:])
phases = {row["name"]: row for row in profile["phases"]}
assert profile["envs"] == 2 and profile["active"] == 3, profile
assert set(phases) == {"train", "validate", "measure", "decide"}, phases
for row in profile["phases"] + profile["operations"]:
    assert 0 <= row["min_ms"] <= row["mean_ms"] <= row["max_ms"] <= row["total_ms"] * (1 + 1e-9), row
assert all(row["count"] == 3 for row in phases.values()), phases
assert abs(sum(row["share"] for row in profile["operations"]) - 1) < 1e-9
totals = [row["total_ms"] for row in profile["operations"]]
assert totals == sorted(totals, reverse=True), totals
assert 0 <= profile["idle_ms"] <= profile["window_ms"], profile
# phases do not overlap: together they are no longer than the window
assert sum(row["total_ms"] for row in profile["phases"]) <= profile["window_ms"] * (1 + 1e-6)
assert profile["dropped"] == 0 and profile["per_step"]["allocations"] >= 0
assert all("shape" in row for row in profile["operations"])
assert all(profile["per_step"][f"bytes_{way}_device"] >= 0 for way in ("to", "from", "on"))
spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
assert spans and all(event["ts"] >= 0 and event["dur"] >= 0 for event in spans)
assert all("shape" in event["args"] for event in spans)
assert sum(event["name"] == "train" for event in spans) == 3
assert sum(event["cat"] != "range" for event in spans) == sum(row["count"] for row in profile["operations"])
# on one track, spans are apart or one inside the other
tracks = {}
for event in spans:
    tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], -event["dur"]))
for track in tracks.values():
    ends = []
    for begin, duration in sorted(track):
        while ends and ends[-1] <= begin + 1e-3:
            ends.pop()
        assert not ends or begin - duration <= ends[-1] + 1e-3, (begin, duration, ends)
        ends.append(begin - duration)
END
else
    echo "no python3: JSON not parsed"
fi

# a trace that cannot be written leaves the old one, and nothing beside it
cp "$folder/trace.json" "$folder/old.json"
ES_FILE_FAULT=rename:1:ENOSPC run 1 profile "${small[@]}" --policy wait --active 1 --trace "$folder/trace.json"
expect_part "full disk" "$err" "cannot replace $folder/trace.json"
cmp -s "$folder/trace.json" "$folder/old.json" || fail "the old trace is gone"
[[ -z $(find "$folder" -name '*.tmp') ]] || fail "left over: $(ls "$folder")"
run 2 profile "${small[@]}" --trace "$folder"
expect_part "folder" "$err" "--trace: cannot write $folder"

finish
