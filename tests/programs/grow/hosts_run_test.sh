#!/usr/bin/env bash
# `esper hosts` as a user runs it: settings, run folder, dry run, interrupting, resuming, failing sinks.
#
# usage: hosts_run_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"

small=(--task tiny --envs 2 --rounds 2 --threads 1)

# --- settings ---
run 2 hosts --hosts.envz=3
expect_part "unknown key" "$err" 'did you mean "envs"?'
run 2 hosts --envs 0
expect_part "range" "$err" "esper hosts: --envs: 0 is outside 1..4096"
run 2 hosts --rounds five
expect_part "no number" "$err" 'esper hosts: --rounds: "five" is not a whole number'
run 2 hosts --rounds 0
expect_part "large range" "$err" "--rounds: 0 is outside 1..1000000000"
run 2 hosts --run.rounds=0
expect_part "key" "$err" "--run.rounds: 0 is outside 1..1000000000"
run 2 hosts --blocks 9 --envs 1
expect_part "blocks" "$err" "images of 16 x 16; 4 of them fit"
run 2 hosts --config "$folder/nope.ini"
expect_part "no file" "$err" "nope.ini: No such file or directory"
run 0 hosts --help
expect_part "help" "$out" "runs/<kind>-<date>-<time>-<id>"
run 0 info
expect_part "info" "$out" ", SQLite "
expect_part "info" "$out" ", libmicrohttpd "
printf '[hosts]\nenvs = 3\nrate = 0.02\n' > "$folder/my.ini"
run 0 hosts --config "$folder/my.ini" --rate 0.03 --dry-run
expect_part "dry run" "$out" "envs = 3"
expect_part "dry run" "$out" "rate = 0.03"
expect_part "dry run" "$out" "# memory"
expect_part "dry run" "$out" "# time"
[[ ! -e runs ]] || fail "a dry run made a folder"
run 2 hosts --dry-run --json
expect_text "dry run as JSON" "$out$err" "esper hosts: --dry-run prints settings and figures, not JSON; leave --json out
try: esper hosts --help"
printf '[hosts]\nenvs = 3\nepochs = 2\n' > "$folder/bad.ini"
run 2 hosts --config "$folder/bad.ini"
expect_part "bad file" "$err" 'bad.ini:3: unknown key "epochs" in [hosts]'

# --- how data are read ---
{ echo k,a,b; for i in $(seq 40); do echo "c$((i % 2)),$i,$((i * i))"; done; } > "$folder/first.csv"
run 2 hosts --task dense --data "$folder/first.csv" --dry-run
expect_part "label is not last" "$err" 'first.csv: line 2, column 0 k: "c1" is no finite number'
run 0 hosts --task dense --data "$folder/first.csv" --label k --dry-run
expect_part "label" "$out" "label = k"
run 0 grow --task dense --data "$folder/first.csv" --label 0 --policy wait --batch 8 --envs 2 --dry-run
expect_part "label by number" "$out" "label = 0"
run 0 hosts "${small[@]}" --image-size 12 --out "$folder/smaller"
expect_part "image size" "$err" "tiny: images of 12 x 12"
run 2 hosts --task dense --data "$folder/first.csv" --labels "$folder/none.npy" --image-size 257
expect_part "image size" "$err" "--image-size: 257 is outside 0..256"

for kind in a/b grow ""; do
    run 2 hosts "--run.kind=$kind" --out "$folder/kind"
    expect_part "foreign kind" "$err" "[run] kind is"
    [[ ! -e $folder/kind ]] || fail "a run of a foreign kind made a folder"
done
mkdir "$folder/grown"
printf '[run]\nkind = grow\n[grow]\nslots = 3\n' > "$folder/grown/config.ini"
run 2 hosts --resume "$folder/grown"
expect_part "run of another kind" "$err" "is a run of kind grow; \`esper grow --resume $folder/grown\` goes on with it"

# --- a run, and its folder ---
run 0 hosts "${small[@]}" --out "$folder/a" --telemetry.jsonl=on
expect_part "table" "$out" "validation %"
expect_part "data" "$err" "tiny: images of 16 x 16"
expect_part "progress" "$err" "round 2/2"
for name in config.ini run.db events.jsonl tensorboard checkpoints/2/DONE; do
    [[ -e $folder/a/$name ]] || fail "the run folder has no $name"
done
run 2 hosts "${small[@]}" --out "$folder/a"
expect_part "same folder" "$err" "--resume"
run 0 hosts "${small[@]}" --out "$folder/b" --quiet --json
python3 - "$folder/out" << 'PYTHON' || fail "hosts --json: $out"
import json, statistics, sys

text = open(sys.argv[1]).read()
root = json.loads(text)
for name in "validation_accuracy", "test_accuracy":
    values = [host[name] for host in root["hosts"]]
    assert abs(root[name]["mean"] - statistics.mean(values)) < 1e-9, root
    assert abs(root[name]["std"] - statistics.stdev(values)) < 1e-6, root
assert "0000000" not in text and "9999999" not in text, text
PYTHON
[[ -z $err ]] || fail "a quiet run says \"$err\""
run 2 hosts --task tiny --envs 1 --rounds 1 --threads 1 --out "$folder/"$'\xff' --quiet --json
expect_part "folder that JSON cannot name" "$err" "cannot write the result as JSON: a text in it is not UTF-8"
expect_text "JSON that cannot be made" "$out" ""
diff -r "$folder/a/checkpoints/2" "$folder/b/checkpoints/2" > /dev/null || fail "two equal runs differ"
# the configuration in the folder reproduces the run
run 0 hosts --config "$folder/a/config.ini" --out "$folder/c" --quiet
diff -r "$folder/a/checkpoints/2" "$folder/c/checkpoints/2" > /dev/null || fail "config.ini gives another run"

# --- a single host has no spread ---
run 0 hosts --task tiny --envs 1 --rounds 1 --threads 1 --out "$folder/single"
expect_part "one round" "$out" ", 1 round, "
[[ $out != *std* && $out != *mean* ]] || fail "one host with a spread: $out"
expect_part "progress" "$err" " images/s  validation "
# hosts that diverge are told as such
run 1 hosts "${small[@]}" --rate 1000 --out "$folder/diverged" --quiet
expect_part "diverged" "$err" "2 of 2 hosts diverged"
expect_part "diverged" "$err" "esper hosts: the run diverged: from round 1 on no loss was finite, or no update had a finite step"
[[ -e $folder/diverged/checkpoints/2/DONE ]] || fail "a run that diverged is not saved"
expect_part "diverged" "$out" "  nan "
[[ $out != *-nan* ]] || fail "the table says -nan"

# --- resuming ---
run 2 hosts --resume "$folder/nothing"
expect_part "no such run" "$err" "is not a run folder (config.ini is missing)"
run 2 hosts --resume "$folder/a" --envs 5
expect_part "changed setting" "$err" "[hosts] envs is 2 in the run that is resumed"
run 0 hosts --resume "$folder/a" --rounds 3
expect_part "resumed" "$err" "run folder: $folder/a; it goes on with round 3 of 3"
[[ $err != *"images of"* ]] || fail "a resumed run tells its data again: $err"
run 0 hosts --task tiny --envs 2 --threads 1 --rounds 3 --out "$folder/d" --quiet
diff -r "$folder/a/checkpoints/3" "$folder/d/checkpoints/3" > /dev/null || fail "a resumed run differs"
# a recipe whose state is more than weights and momentum
recipe=(--recipe.average=0.99 --recipe.optimiser=adamw --recipe.schedule=step --recipe.step_epochs=2 --rate 0.002)
run 0 hosts --task tiny --envs 2 --threads 2 --rounds 2 --out "$folder/recipe" --quiet "${recipe[@]}"
[[ -s $folder/recipe/checkpoints/2/average.safetensors ]] || fail "a checkpoint has no averaged weights"
run 0 hosts --resume "$folder/recipe" --rounds 3 --quiet
run 0 hosts --task tiny --envs 2 --threads 1 --rounds 3 --out "$folder/recipe-whole" --quiet "${recipe[@]}"
diff -r "$folder/recipe/checkpoints/3" "$folder/recipe-whole/checkpoints/3" > /dev/null || fail "a resumed run with a recipe differs"
run 0 hosts --task tiny --envs 2 --threads 1 --rounds 3 --out "$folder/average" --quiet --recipe.average=0.9
cmp -s "$folder/average/checkpoints/3/hosts.safetensors" "$folder/d/checkpoints/3/hosts.safetensors" || fail "an average changes training"
# the views tell of the whole run, not of its sessions
ask() { # run query expected
    local found
    found=$("$esper" query "$1" "$2" --csv | tr -d '\r' | tail -n +2)
    [[ $found == "$3" ]] || fail "$2: \"$found\", expected \"$3\""
}
ask "$folder/a" "select n_rounds, last_round, n_sittings from runs" "3,3,2"
ask "$folder/a" "select env, episode, n_steps from episodes order by env" $'0,0,3\n1,1,3'
# every write is recorded, the last one too
ask "$folder/a" "select (select sum(n_calls) from event_phase_profiled where phase = 'write') - count(*) from event_checkpoint_saved" 0
run 2 hosts --resume "$folder/a" --rounds 1
expect_part "fewer rounds" "$err" "has 3 rounds already; it cannot go on to round 1"
grep -q "^rounds = 3" "$folder/a/config.ini" || fail "a refused resume changed config.ini"
run 0 hosts "${small[@]}" --out "$folder/dark" --quiet --telemetry.level=off
run 0 hosts --resume "$folder/dark" --rounds 3 --quiet --telemetry.level=minimal
ask "$folder/dark" "select n_rounds, n_sittings from runs" "3,2"

# --- data files that change ---
mkdir "$folder/idx"
python3 - "$folder/idx" << 'PYTHON'
import struct, sys

for name, n in (("train", 300), ("t10k", 50)):
    with open(f"{sys.argv[1]}/{name}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">IIII", 2051, n, 16, 16) + bytes(i * 7 % 256 for i in range(n * 256)))
    with open(f"{sys.argv[1]}/{name}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">II", 2049, n) + bytes(i % 10 for i in range(n)))
PYTHON
(cd "$folder" && "$esper" hosts --data idx --folder idx --envs 1 --rounds 1 --threads 1 --out moving --quiet > /dev/null) ||
    fail "a relative --folder"
run 0 hosts --resume "$folder/moving" --rounds 2 --quiet # from another directory
run 2 hosts --data idx --folder nowhere-at-all
expect_part "no folder" "$err" "[hosts] folder: nowhere-at-all: No such file or directory"
run 0 hosts --data idx --folder "$folder/idx" --envs 1 --rounds 1 --threads 1 --out "$folder/idx-run" --quiet
run 0 hosts --resume "$folder/idx-run" --rounds 2 --quiet
printf '\377' | dd of="$folder/idx/train-images-idx3-ubyte" bs=1 seek=1000 conv=notrunc status=none
run 2 hosts --resume "$folder/idx-run" --rounds 3 --quiet
expect_part "changed data" "$err" 'the data set is not the one this run began with'

# --- interrupting: the state is saved, the exit code says so ---
for signal in INT TERM HUP; do
    "$esper" hosts --task tiny --envs 2 --threads 1 --rounds 100000 --out "$folder/$signal" > "$folder/out" 2> "$folder/err" &
    child=$!
    for ((i = 0; i < 200; i++)); do
        sleep 0.05
        grep -q "round " "$folder/err" && break
    done
    kill -s $signal $child
    wait $child
    code=$?
    [[ $code == 130 ]] || fail "exit code after $signal is $code: $(cat "$folder/err")"
    expect_part "after $signal" "$(cat "$folder/err")" "rounds are saved. Go on with: esper hosts --resume $folder/$signal"
done

# --- a sink without room is told once, training goes on, the exit code says so ---
if unshare --mount --map-root-user true 2> /dev/null; then
    run 0 hosts "${small[@]}" --out "$folder/full" --quiet --telemetry.tensorboard=off
    mkdir "$folder/full/tensorboard"
    unshare --mount --map-root-user sh -c "mount -t tmpfs -o size=4k none '$folder/full/tensorboard' && '$esper' hosts \
        --resume '$folder/full' --rounds 30 --quiet --telemetry.tensorboard=on" > "$folder/out" 2> "$folder/err"
    code=$?
    err=$(cat "$folder/err")
    [[ $code == 3 ]] || fail "exit code with a full tensorboard/ is $code, expected 3: $err"
    expect_part "lost events" "$err" "tensorboard lost"
    [[ -e $folder/full/checkpoints/30/DONE ]] || fail "training did not go on beside a sink without room"
    run 0 hosts --task tiny --envs 2 --threads 1 --rounds 30 --out "$folder/roomy" --quiet
    diff -r "$folder/full/checkpoints/30" "$folder/roomy/checkpoints/30" > /dev/null ||
        fail "a failing sink changed the results"
else
    echo "no mount namespaces here: full disk not tried"
fi

finish
