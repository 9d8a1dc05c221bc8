#!/usr/bin/env bash
# Suites and sweeps of `esper bench`: which cases are made, what they are told apart by, what is refused.
#
# usage: bench_suites_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"

# --- sweeps ---
run 0 bench host growth --task tiny --sweep envs=1,4 --list
expect_text "swept cases" "$out" "host/tiny E=1 N=64 blocks=2 P=f32
growth/tiny E=1 N=64 batches=8 V=2000 seeds=holding P=off policy=none
growth/tiny E=1 N=64 batches=8 V=2000 seeds=holding P=off policy=learned
host/tiny E=4 N=64 blocks=2 P=f32
growth/tiny E=4 N=64 batches=8 V=2000 seeds=holding P=off policy=none
growth/tiny E=4 N=64 batches=8 V=2000 seeds=holding P=off policy=learned"
run 0 bench host --hosts 2 --sweep batch=8,16 --list
expect_text "swept batch" "$out" "host/cifar_baseline E=2 N=8 blocks=3 P=f32
host/cifar_baseline E=2 N=16 blocks=3 P=f32"
run 0 bench transfer --sweep threads=1,2 --filter "to_host B=4KiB memory=pinned" --list
expect_text "swept threads" "$out" "transfer/to_host B=4KiB memory=pinned threads=1
transfer/to_host B=4KiB memory=pinned threads=2"
run 0 bench policy --sweep hidden=64,128 --list
expect_text "swept hidden" "$out" "policy/act E=64 H=64 S=3
policy/decide E=64 H=64 S=3
policy/act E=64 H=128 S=3
policy/decide E=64 H=128 S=3"
run 0 bench --sweep envs=3 --list
[[ $out != *kernels/* ]] || fail "suites without such cases are swept: $out"
run 2 bench kernels --sweep envs=1,2
expect_part "suite without cases" "$err" "--sweep: suite kernels has no cases that differ in envs"
run 2 bench growth --sweep hidden=64
expect_part "suite without cases" "$err" "--sweep: suite growth has no cases that differ in hidden"
run 2 bench --sweep evns=1
expect_part "unknown name" "$err" '--sweep: unknown name "evns"; did you mean "envs"?'
run 2 bench --sweep colour=1
expect_part "unknown name" "$err" 'unknown name "colour"; it is envs, batch, hidden or threads'

# --- growth ---
run 2 bench growth --seeds holdin
expect_part "seeds" "$err" '--seeds: no blueprint is called "holdin"'
run 2 bench growth --task tiny --seeds norm,norm,norm
expect_part "seeds" "$err" "--seeds norm,norm,norm: the host has 2 slots"
run 2 bench growth --amp-dtype fp8
expect_part "precision" "$err" '--amp-dtype "fp8" is not auto, off, bfloat16 or float16'
run 0 bench growth --task tiny --envs 1 --batch 8 --step-batches 1 --validation-images 8 --seeds none --samples 5 \
    --amp-dtype auto --filter policy=none
expect_part "precision of the device" "$out" "seeds=none P=auto"
run 2 bench growth --tf32 maybe
expect_part "TF32" "$err" '--tf32 "maybe" is not on or off'
run 0 bench host --task tiny --tf32 off --list
expect_part "TF32 off" "$out" "P=f32 tf32=off"
run 2 bench growth --task tiny --amp-dtype bfloat16
expect_part "precision of the CPU" "$err" "the CPU computes in F32; BF16 is asked for"
growth=(--task tiny --threads 2 --batch 16 --step-batches 2 --validation-images 50 --samples 5)
run 0 bench growth "${growth[@]}" --seeds holding --sweep envs=1,3 --json
cp "$folder/out" "$folder/growth.json"
run 0 bench growth "${growth[@]}" --seeds none --envs 2 --step-batches -1 --batch 2000
expect_part "a share of the images" "$out" "E=2 N=2000 batches=2 V=50 seeds=none P=off policy=learned"
run 0 bench growth --step-batches -1 --batch 512 --sweep envs=4,64 --list --filter policy=none
expect_part "a share of the images" "$out" "E=4 N=512 batches=9 V="
expect_part "at least one batch" "$out" "E=64 N=512 batches=1 V="
one=(--task tiny --envs 1 --batch 8 --step-batches 1 --validation-images 8 --samples 5 --filter policy=learned)
temporary=$folder/$(printf 'long%.0s' {1..20})
mkdir "$temporary"
TMPDIR=$temporary run 0 bench growth "${one[@]}"
expect_text "what a benchmark leaves in its temporary folder" "$(ls "$temporary")" ""
TMPDIR=$temporary/none run 1 bench growth "${one[@]}"
expect_part "no temporary folder" "$err" "cannot make a temporary folder $temporary/none/esper-bench-"

# --- a host of one's own: images of noise in its sizes, or its data set ---
printf '[host]\nname = own\nimage_size = 28\nimage_channels = 3\nclasses = 7\nbatch = 8\n[block0]\nchannels = 5\nkernel = 5
pool = max\nbefore_pool = off\nafter_pool = on\n[block1]\nchannels = 9\n' > "$folder/own.ini"
run 0 bench host --task "$folder/own.ini" --hosts 2 --samples 5
expect_part "a host file" "$out" $'\nown  '
expect_part "its batch" "$out" " E=2 N=8 blocks=2 P=f32 "
expect_part "its rate" "$out" " images/s"
run 0 bench growth --task "$folder/own.ini" --envs 2 --step-batches 1 --validation-images 20 --samples 5
expect_part "growth of a host file" "$out" "E=2 N=8 batches=1 V=20 seeds=holding P=off policy=learned"
sed 's/^name = own/&\ndata = tiny/' "$folder/own.ini" > "$folder/tiny.ini"
run 0 bench host --task "$folder/tiny.ini" --hosts 1 --samples 5
expect_part "a host file with data" "$out" " E=1 N=8 blocks=2 P=f32 "
run 2 bench host --task "$folder/own.ini" --blocks 3
expect_part "blocks of a file" "$err" "--blocks is of presets; $folder/own.ini says its blocks itself"
run 2 bench growth --task "$folder/none.ini"
expect_part "no such file" "$err" "host: cannot open $folder/none.ini"

# --- proofs ---
run 0 bench prove --envs 3 --list
expect_text "proofs" "$out" "prove/engine E=3 data=generated
prove/env E=3 data=generated
prove/walk E=3 data=generated
prove/rollout E=3 data=generated
prove/train E=3 data=generated
prove/evaluation E=3 data=generated"
run 0 bench prove --envs 3 --samples 5 --threads 2 --filter train --json
python3 - "$folder/out" << 'PYTHON' || fail "the parts of training"
import json, sys
records = {record["metric"]: record for record in json.load(open(sys.argv[1]))}
parts = ["environment", "embedding", "linear layers", "transfers", "synchronisation", "other"]
assert list(records) == ["time", "rate"] + parts, list(records)
assert abs(sum(records[part]["value"] for part in parts) - 100) < 1e-6
assert records["transfers"]["value"] == 0 and records["linear layers"]["value"] > 0
PYTHON

# a walk is counted, too; the CPU launches and copies nothing
run 0 bench prove --envs 3 --samples 5 --threads 2 --filter walk --json
python3 - "$folder/out" << 'PYTHON' || fail "the counts of a walk"
import json, sys
records = {record["metric"]: record for record in json.load(open(sys.argv[1]))}
counts = ["synchronisations", "copies", "launches", "allocations"] + [f"bytes {way} device" for way in ("to", "from", "on")]
assert list(records) == ["time", "rate"] + counts, list(records)
assert all(records[count]["value"] == 0 for count in counts)
PYTHON

# --- counted ---
run 0 bench sync "${growth[@]}" --sweep envs=1,2 --json
cp "$folder/out" "$folder/sync.json"

# --- copies ---
run 0 bench transfer --filter B=4KiB --samples 5 --json
cp "$folder/out" "$folder/transfer.json"

if command -v python3 > /dev/null; then
    python3 - "$folder" << 'END' || fail "records are not as expected"
import json, sys
growth, sync, transfer = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("growth", "sync", "transfer"))
rates = [r for r in growth if r["metric"] == "rate"]
command = "esper bench growth --task tiny --threads 2 --batch 16 --step-batches 2 --validation-images 50 --samples 5"
assert {r["command"] for r in growth} == {f"{command} --seeds holding --sweep envs=1,3 --json"}, growth[0]["command"]
assert [(r["parameters"]["E"], r["parameters"]["policy"]) for r in rates] == [
    (e, policy) for e in (1, 3) for policy in ("none", "learned")], rates
assert all(r["unit"] == "steps/s" for r in rates)
for time, rate in zip([r for r in growth if r["metric"] == "time"], rates):
    # E environment steps in each run
    assert abs(rate["value"] * time["value"] / 1e3 / rate["parameters"]["E"] - 1) < 1e-6, (time, rate)
assert all(r["value"] == 0 for r in growth if r["metric"] == "allocations")
assert {(r["case"], r["parameters"]["E"]) for r in sync} == {(c, e) for c in ("engine", "growth", "hosts") for e in (1, 2)}
assert {r["parameters"].get("policy") for r in sync if r["case"] == "growth"} == {"learned"}
counts, moved = [[r for r in sync if r["unit"].startswith("B ") == is_moved] for is_moved in (False, True)]
assert {r["metric"] for r in counts} == {"synchronisations", "copies", "launches", "allocations"}
assert {r["metric"] for r in moved} == {"bytes to device", "bytes from device", "bytes on device"}
assert all(r["ratio"] == 1 and r["peer"] for r in counts if r["parameters"]["E"] == 2), sync
assert not any(r["peer"] for r in moved), moved
assert {r["case"] for r in transfer} == {"to_device", "to_host", "on_device"}
assert {r["parameters"].get("memory") for r in transfer} == {"pinned", "pageable", None}
assert all(r["value"] > 0 for r in transfer)
END
else
    echo "no python3: records not parsed"
fi

finish
