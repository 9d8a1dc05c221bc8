#!/usr/bin/env bash
# Messages of `esper grow`: mistakes, policies' files, and the width of its tables.
#
# usage: grow_messages_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$1
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1

host=(--envs 4 --episode-steps 6 --step-batches 2 --validation-images 200)

# --- options ---
run 2 grow --reward.mode sparse
expect_part "a setting with its value apart" "$err" \
    "--reward.mode takes its value after an equals sign: --reward.mode=sparse"
run 0 grow "${host[@]}" --reward sparse --pad 2 --flip --dry-run
expect_part "--reward" "$out" "mode = sparse"
expect_part "--pad" "$out" "pad = 2"
expect_part "--flip" "$out" "flip = true"
run 0 grow "${host[@]}" --amp-dtype off --dry-run
expect_part "--amp-dtype" "$out" "amp_dtype = off"
expect_part "numbers of the CPU" "$out" ": hosts compute in float32, vector engine"
run 0 grow "${host[@]}" --data-split share --dry-run
expect_part "--data-split" "$out" "data_split = share"
run 2 grow "${host[@]}" --data-split half --dry-run
expect_part "--data-split of another word" "$err" "is not one of whole, share"
run 0 grow "${host[@]}" --tf32 off --dry-run
expect_part "--tf32" "$out" "tf32 = off"
run 2 grow "${host[@]}" --tf32 maybe --dry-run
expect_part "--tf32 of another word" "$err" "tf32"
run 2 grow "${host[@]}" --amp-dtype bfloat16 --dry-run
expect_part "half precision on the CPU" "$err" "the CPU computes in F32; BF16 is asked for"
run 0 grow --help
expect_part "help" "$out" "--device cuda runs all of it on a GPU"

# --- what the user has named and is not there is wrong input ---
run 2 grow --policy script:nosuch.txt
expect_part "schedule" "$err" "schedule: cannot open nosuch.txt"
run 2 grow --policy script:
expect_part "schedule without a name" "$err" "a schedule needs a file: script:FILE"
run 2 grow --task nosuch.ini
expect_part "host file" "$err" "host: cannot open nosuch.ini"
run 2 grow --data cifar10
expect_part "data set" "$err" 'data set "cifar10" needs a folder (--folder DIR) or ES_DATA_DIR'
mkdir -p elsewhere
printf '[run]\nkind = hosts\n\n[hosts]\ntask = tiny\n' > elsewhere/hosts.ini
run 2 grow --config elsewhere/hosts.ini
expect_part "settings of another kind" "$err" \
    'elsewhere/hosts.ini has the settings of a run of kind "hosts"; this command takes those of kind "grow"'
printf '[grow]\ntaks = tiny\n' > elsewhere/typo.ini
run 2 grow --config elsewhere/typo.ini
expect_part "where the settings are wrong" "$err" 'elsewhere/typo.ini:2: unknown key "taks"'

# --- one slot is no choice, and not choosing is no collapse ---
run 0 grow "${host[@]}" --slots r0c1 --hidden 16 --rounds 5 --eval 0 --quiet --out one
expect_text "alarms of a head without a choice" "$(ask one "select count(*) from anomalies where rule = 'entropy_collapse_slot'")" 0
expect_text "its curve" "$(ask one "select count(*) || ' ' || max(value) from metrics where name = 'policy/slot_entropy'")" "5 0.0"

# --- policies ---
run 2 grow --policy ppoo
expect_part "policy" "$err" 'there is no policy "ppoo"'
expect_part "policy" "$err" "--policy ppo trains one"
policy=one/policy.safetensors
run 2 grow "${host[@]}" --policy $policy
expect_part "slots" "$err" "$policy: the policy was trained with --slots r0c1; this run has r0c0,r0c1"
host+=(--slots r0c1)
run 2 grow "${host[@]}" --episode-steps 7 --policy $policy
expect_part "episode" "$err" "trained with --episode-steps 6; this run has 7"
run 2 grow "${host[@]}" --gates strict --policy $policy
expect_part "gates" "$err" "trained with --gates permissive; this run has strict"
run 0 grow "${host[@]}" --policy $policy --hidden 128 --rounds 0 --eval 1 --quiet --out played
expect_part "sizes of a file" "$err" "note: --hidden is of the network that --policy ppo trains; policy $PWD/$policy has no use for it"
head -c 3000 /dev/urandom > noise.safetensors
run 2 grow "${host[@]}" --policy noise.safetensors
expect_part "noise" "$err" "noise.safetensors is not a policy file ("
for bytes in 5000 200; do
    head -c $bytes $policy > cut.safetensors
    run 2 grow "${host[@]}" --policy cut.safetensors
    expect_part "cut" "$err" "cut.safetensors is cut short or damaged ("
done

# --- what a run says at its start ---
run 2 grow --dry-run --json
expect_part "dry run as JSON" "$err" "--dry-run prints settings and figures, not JSON"
run 0 grow "${host[@]}" --policy wait --rounds 2 --eval 0 --out start --json
expect_part "data set" "$err" "data: tiny, 8000 training, 2000 validation and 2000 test images of 16 x 16 x 1 in 10 classes"
expect_part "seeds of a host" "$out" '"seeds": "'
run 0 grow --resume start --rounds 4
expect_part "where it goes on" "$err" "run folder: start; it goes on with round 3 of 4"
[[ $err != *"data: "* ]] || fail "a resumed run tells its data set again"
run 0 grow --resume start
expect_part "nothing to do" "$err" "run folder: start; all 4 rounds are done"
run 0 grow "${host[@]}" --policy wait --rounds 1 --eval 1 --evaluate.against= --repeat 2 --out twice
expect_text "times that the data set is told" "$(grep -c '^data: ' <<< "$err")" 1

# --- interrupted in the comparison: no word of rounds, and a command to copy ---
"$esper" grow "${host[@]}" --policy wait --rounds 1 --eval 100000 --out "my run" > out.txt 2> err.txt &
child=$!
for ((i = 0; i < 200; i++)); do
    [[ -d "my run/checkpoints/1" ]] && break
    sleep 0.1
done
sleep 0.5
kill -INT $child
wait $child
expect_text "exit code of an interrupted comparison" "$?" 130
expect_part "at Ctrl-C" "$(cat err.txt)" "stopping; the rounds are saved; Ctrl-C again quits at once"
expect_part "how to go on" "$(cat err.txt)" "Go on with: esper grow --resume 'my run'"
if command -v script > /dev/null; then
    TERM=dumb script -qec "'$esper' grow --policy wait --rounds 2 --envs 2 --episode-steps 4 --eval 0 --out dumb" typescript > /dev/null
    grep -q $'\x1b' typescript && fail "a dumb terminal got escape sequences"
    grep -q 'round 2/2' typescript || fail "a dumb terminal got no lines: $(cat typescript)"
fi

# --- a small host from a file has a small policy; long times are told in hours ---
cat > small.ini << 'INI'
[host]
data = tiny
base = 4
blocks = 3
pools = 2
INI
run 0 grow "${host[@]}" --slots r0c0,r0c1 --task small.ini --dry-run
expect_part "policy of a small host" "$out" "# policy      70324 parameters"
run 0 grow "${host[@]}" --rounds 100000000 --dry-run
expect_part "time" "$out" " d "

# --- tables ---
expect_table() { # NAME TEXT: no row above 100 columns, no blanks at an end
    local widest
    widest=$(awk '{ if (length($0) > n) n = length($0) } END { print n }' <<< "$(grep -v '^means' <<< "$2")")
    ((widest <= 100)) || fail "$1 is $widest columns wide"
    grep -q ' $' <<< "$2" && fail "$1 has blanks at the end of a line"
}
run 0 grow "${host[@]}" --policy heuristic --rounds 1 --eval 4 --quiet --out table
expect_table "the comparison" "$out"
expect_part "the comparison" "$out" "parameters  fossils  rollbacks"
run 0 grow "${host[@]}" --policy wait --rounds 1 --eval 0 --quiet --out hosts
expect_table "the hosts" "$out"
run 0 grow "${host[@]}" --policy heuristic --rounds 1 --eval 2 --repeat 2 --quiet --out seeds
expect_table "the seeds" "$out"
run 0 grow --resume seeds --repeat 2 --quiet --json
expect_part "an interval" "$out" '"low": '

# --- a cell of a table has bounds ---
run 0 query start "select * from runs"
((${#out} < 2000)) || fail "a row of runs has ${#out} bytes"
run 0 query start "select config from runs" --csv
expect_part "the whole configuration" "$out" "[evaluate]"

finish
