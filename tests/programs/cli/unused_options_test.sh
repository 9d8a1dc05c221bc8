#!/usr/bin/env bash
# Options that contradict each other are refused, and those that have no effect where they stand are told: what was set must
# not look as if it had been used.
#
# usage: unused_options_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1

# refuse MESSAGE ARGUMENTS...
refuse() {
    run 2 "${@:2}"
    expect_part "esper ${*:2}" "$err" "$1"
}

# note CODE MESSAGE ARGUMENTS...: the note is there; without the last two arguments there is none
note() {
    run "$1" "${@:3}"
    expect_part "esper ${*:3}" "$err" "note: $2"
    local without=("${@:3:$#-4}")
    run "$1" "${without[@]}"
    [[ $err != *"note: "* ]] || fail "esper ${without[*]}: $err"
}

mkdir graph
printf 'p(a,b)\np(b,c)\nq(a,b)\nq(b,a)\n' > graph/train.txt
printf 'p(b,a)\n' > graph/test.txt
printf 'r0:1:q(x,y) -> p(x,y)\n' > graph/rules.txt

# --- contradictions ---
refuse "--json and --telemetry exclude each other" info --json --telemetry
refuse "--rules goes with --data; a generated graph has its own rules" prove train --rounds 1 --eval -1 --generated 30 --rules rules.txt
refuse "--data and --generated exclude each other" prove train --rounds 1 --generated 30 --data graph
for action in closure "query father(X,Y)" mine depths eval curve "embed --out m" "export --out g.pl"; do
    read -ra words <<< "$action"
    refuse "--seed and --graph-seed are the same here" prove "${words[@]}" --generated 30 --seed 2 --graph-seed 3
done
[[ ! -e m && ! -e g.pl ]] || fail "a refused command wrote a file"

# --- no effect ---
generated="has no effect with --data: it is the seed of the generated graph"
note 0 "--seed $generated" prove closure --data graph --seed 3
note 0 "--graph-seed $generated" prove depths --data graph --graph-seed 3
note 0 "--soft-max-rank has no effect without --soft" prove closure --data graph --soft-max-rank 3
note 0 "--soft-min-score has no effect without --soft" prove closure --data graph --soft-min-score 0.5
note 0 "--rules has no effect here: the graph's rules are left out" prove mine --data graph --rules rules.txt
run 0 prove mine --data graph --seed 3 # picks the facts kept back
expect_text "a seed that is used" "$err" ""
rank=(prove eval --data graph --corruptions 1)
for option in "--nodes 5" "--batch 2" "--max-successors 3" "--reference-depth 2"; do
    read -ra words <<< "$option"
    note 0 "${words[0]} has no effect with --search prover" "${rank[@]}" "${words[@]}"
done
note 0 "--beam-width has no effect without --search beam" "${rank[@]}" --search best_first --beam-width 3
note 0 "--samples has no effect without --search sampled" "${rank[@]}" --search beam --samples 3
note 0 "--temperature has no effect without --score evidence" "${rank[@]}" --search beam --temperature 2
note 0 "--fit-queries has no effect without --fit" "${rank[@]}" --fit-queries 3
note 0 "--bonus has no effect without --embedding" "${rank[@]}" --bonus 3
run 0 "${rank[@]}" --search beam --beam-width 3 --nodes 5
expect_text "options that are used" "$err" ""
note 0 "--policy-seed has no effect without --policy" prove curve --data graph --min-depth 1 --policy-seed 3
note 0 "--limit has no effect on --views" query --views --limit 3
note 0 "--hidden has no effect outside the suite policy" bench kernels --list --hidden 8
note 0 "--data has no effect outside the suite prove" bench kernels --list --data graph
note 0 "--samples has no effect with --list" bench kernels --list --samples 9
note 0 "--tf32 has no effect on the CPU" hosts --dry-run --envs 1 --tf32 on
train=(prove train --data graph --dry-run --envs 2 --steps 2 --policy.embed=8 --policy.hidden=8 --policy.layers=1)
note 0 "--graph-seed $generated" "${train[@]}" --graph-seed 3
run 0 grow --policy wait --envs 1 --dry-run --ppo.rate=0.1
expect_part "settings of a training" "$err" "note: --ppo.rate=0.1 is of the policy that --policy ppo trains with; policy wait has no use for it"

# --- hosts of files ---
printf '[host]\ndata = tiny\nimage_size = 32\nclasses = 7\n' > other.ini
printf '[host]\ndata = tiny\nimage_size = 16\nimage_channels = 1\nclasses = 10\n' > same.ini
printf '[host]\ndata = tiny\n' > silent.ini
run 0 hosts --task ./other.ini --envs 1 --dry-run
expect_part "image_size" "$err" 'host "other": its file says images of 32 x 32 x 1, data set "tiny" has 16 x 16 x 1'
expect_part "classes" "$err" 'host "other": its file says 7 classes, data set "tiny" has 10'
for task in same silent; do
    run 0 hosts --task ./$task.ini --envs 1 --dry-run
    expect_text "stderr of $task" "$err" ""
done
run 0 hosts --task ./same.ini --base 9 --envs 1 --dry-run
expect_part "channels of a file" "$err" "--base is of presets"

finish
