#!/usr/bin/env bash
# `esper prove train` as a user runs it: a policy learns, is kept, opened again and compared; resuming, Ctrl-C, mistakes.
#
# usage: prove_train_test.sh PATH_TO_ESPER PATH_TO_MAKE_DIVERGED_PROOFS
set -uo pipefail
esper=$(realpath "$1")
make_diverged_proofs=$(realpath "$2")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
root=$(cd "$(dirname "$0")/../../.." && pwd)
cd "$folder" || exit 1

small=(--generated 60 --envs 16 --steps 8 --policy.embed=8 --policy.hidden=16 --policy.layers=1 --nodes 8 --depth 3
    --validate.queries=12 --validate.corruptions=3 --eval-every 2 --eval 10 --evaluate.corruptions=3 --ppo.anneal_rounds=5)
loud=("${small[@]}")
small+=(--quiet)

# expect_comparison WHAT A B: the same comparison in both run folders; only its times may differ
expect_comparison() {
    diff <(grep -v '"seconds"' "$2/evaluation.json") <(grep -v '"seconds"' "$3/evaluation.json") > diff.txt ||
        fail "$1: another comparison: $(cat diff.txt)"
}

run 0 prove train --help
expect_part "help" "$out" "--eval-every N"
expect_part "help" "$(grep -e --generated <<< "$out")" "people of the generated graph"

# --- five rounds, end to end ---
run 0 prove train "${small[@]}" --rounds 5 --threads 1 --checkpoint.every=1 --checkpoint.keep=9 --out a
expect_part "table" "$out" "generated: 10 test queries against 3 corruptions a side"
for arm in "trained policy" "untrained policy" "symbolic, proved or not" "symbolic, shortest proof first"; do
    expect_part "table" "$out" "$arm"
done
expect_text "rounds" "$(ask a "select count(*) || ' ' || min(n_positives > 0) || ' ' || max(n_overflow) from proofs")" "5 1 0"
expect_text "rounds with a reward" "$(ask a "select count(*) from rounds where reward between -1 and 1 and accuracy between 0 and 100")" 5
expect_text "updates" "$(ask a "select count(*) || ' ' || sum(n_epochs > 0) || ' ' || sum(is_skipped) from event_update_completed")" "5 5 0"
# rounds 2 and 4, and the last weights once more at the end
expect_text "validations" "$(ask a "select group_concat(round, ' ') from rankings where split = 'valid'")" "2 4 5"
expect_text "comparison" "$(ask a "select group_concat(arm, ' ') from rankings where split = 'test' and round = 6")" "policy untrained proved shortest uniform breadth"
expect_text "steps" "$(ask a "select sum(n_steps) from throughput")" 640
[[ $(ask a "select count(*) from episodes where query like '%(%,%)' and n_steps > 0 and env < 4") -ge 5 ]] || fail "no sample of episodes"
expect_text "episodes that are not paid by how they end" "$(ask a "select count(*) from episodes where reward != case when label = is_proved then 1 else -1 end")" 0
expect_text "rates that rise and fall" "$(ask a "select count(distinct learning_rate) || ' ' || (min(learning_rate) > 0) from event_update_completed")" "5 1"
expect_text "curves" "$(ask a "select count(distinct name) from metrics where name in ('charts/SPS', 'losses/approx_kl', 'policy/choice_entropy',
    'proof/positives_proved', 'proof/validation_mrr')")" 5
for file in policy.safetensors last.safetensors evaluation.json config.ini checkpoints/5/training.safetensors checkpoints/5/training.bin \
    checkpoints/5/best.safetensors; do
    [[ -f a/$file ]] || fail "no $file in the run folder"
done
cmp -s a/checkpoints/1/training.safetensors a/checkpoints/5/training.safetensors && fail "training changed nothing"
[[ ! -e a/checkpoints/1/best.safetensors ]] || fail "best weights before any validation"

# --- the same bytes on two threads, without telemetry, resumed, and from a file of settings ---
run 0 prove train "${small[@]}" --rounds 5 --threads 2 --telemetry.level=off --out b
run 0 prove train "${small[@]}" --rounds 3 --eval -1 --threads 2 --out c
run 0 prove train --resume c --rounds 5 --eval 10 --threads 1 --quiet
run 0 prove train --config a/config.ini --quiet --out d
for other in b c d; do
    diff -r a/checkpoints/5 $other/checkpoints/5 > diff.txt || fail "$other: another checkpoint: $(cat diff.txt)"
    for file in policy.safetensors last.safetensors; do
        cmp a/$file $other/$file || fail "$other: another $file"
    done
    expect_comparison $other a $other
done
states="select group_concat(state_hash, ' ') from rounds"
expect_text "states of a resumed run" "$(ask c "$states")" "$(ask a "$states")"
[[ $(ask a "select count(distinct state_hash) from rounds") == 5 ]] || fail "states: $(ask a "$states")"

# --- a finished run tells what it has, and ranks nothing again ---
cp -r a told
times="select group_concat(seconds, ' ') from (select seconds from rankings where split = 'test' and round = 6 and seconds > 0 order by arm)"
expect_text "times of the comparison" "$(ask a "$times" | wc -w)" 6
run 0 prove train --resume told --quiet --json
expect_text "times of a finished run" "$(ask told "$times")" "$(ask a "$times")"
expect_part "JSON of a finished run" "$out" '"best_round": '
expect_part "JSON of a finished run" "$out" '"arm": "untrained"'
first=$out
spoil() { sed -i 's/"expanded": [0-9]*/"expanded": 987654/' "$1/evaluation.json"; } # shows whether it ranks again
spoil told
cp told/evaluation.json spoilt.json
touch -d '2001-01-01' told/evaluation.json told/policy.safetensors
run 0 prove train --resume told --quiet --json
expect_text "JSON of a finished run, resumed again" "$(grep -v expanded <<< "$out")" "$(grep -v expanded <<< "$first")"
expect_text "arms that are not ranked again" "$(grep -c '"expanded": 987654' <<< "$out")" 6
for file in evaluation.json policy.safetensors; do
    expect_text "time of $file" "$(stat -c %Y told/$file)" "$(date -d 2001-01-01 +%s)"
done
cmp -s told/last.safetensors a/last.safetensors || fail "a finished run has other last weights"
expect_text "its comparison" "$(ask told "select group_concat(arm, ' ') from rankings where split = 'test' and round = 6")" "policy untrained proved shortest uniform breadth"
expect_text "its validations" "$(ask told "select group_concat(round, ' ') from rankings where split = 'valid'")" "2 4 5"
run 0 prove train --resume told --quiet
expect_part "table of a finished run" "$out" "untrained policy"
# other queries or corruptions, a policy that is gone, a file that is none, and more rounds are ranked
for change in --eval=9 --evaluate.corruptions=4; do
    cp spoilt.json told/evaluation.json
    run 0 prove train --resume told --quiet $change
    grep -q 987654 told/evaluation.json && fail "$change: not ranked again"
done
run 0 prove train --resume told --quiet --eval=10 --evaluate.corruptions=3
expect_comparison "asked as at first" told a
spoil told
rm told/policy.safetensors
run 0 prove train --resume told --quiet
cmp told/policy.safetensors a/policy.safetensors || fail "a policy that was gone: another one"
expect_comparison "a policy that was gone" told a
echo '{"queries": 10}' > told/evaluation.json
run 0 prove train --resume told --quiet
expect_part "no comparison" "$err" "evaluation.json: "
expect_part "no comparison" "$err" "; the queries are ranked again"
expect_comparison "a file that was none" told a
spoil told
run 0 prove train --resume told --rounds 6 --quiet
grep -q 987654 told/evaluation.json && fail "more rounds: not ranked again"
expect_part "more rounds" "$(cat told/evaluation.json)" '"rounds": 6'

# --- the policy guides searches ---
eval=(prove eval --generated 60 --queries 6 --corruptions 3 --max-depth 3 --policy a/policy.safetensors)
for search in best_first beam greedy sampled; do
    run 0 "${eval[@]}" --search $search --nodes 20 --score probability --threads 1 --json
    one=${out/\"seconds\"*/}
    expect_part "$search" "$one" '"policy": "a/policy.safetensors"'
    run 0 "${eval[@]}" --search $search --nodes 20 --score probability --threads 2 --json
    expect_text "$search on two threads" "${out/\"seconds\"*/}" "$one"
done
run 0 "${eval[@]}" --search greedy --score probability
expect_part "table" "$out" "guided by a/policy.safetensors"
run 2 "${eval[@]}"
expect_part "prover" "$err" "--policy guides a --search"
run 2 prove eval --generated 70 --search greedy --policy a/policy.safetensors
expect_part "another graph" "$err" "was trained on another graph"
for option in --seed --graph-seed; do
    run 2 "${eval[@]}" --search greedy $option 5
    expect_part "another seed" "$err" "this one is generated by --generated 60 --graph-seed 5, which must be those of the training"
done
run 2 prove eval --generated 60 --search greedy --policy gone.safetensors
[[ $err != *graph-seed* ]] || fail "a file that is not there is no matter of seeds: $err"

# --- interrupted: what is saved goes on ---
for signal in INT TERM; do
    "$esper" prove train "${loud[@]}" --rounds 100000 --eval-every 0 --out $signal > out.txt 2> err.txt &
    child=$!
    for ((i = 0; i < 400; i++)); do
        sleep 0.05
        grep -q "round 2/" err.txt && break
    done
    kill -s $signal $child
    wait $child
    expect_text "exit code after $signal" "$?" 130
    expect_part "after $signal" "$(cat err.txt)" "rounds are saved. Go on with: esper prove train --resume $signal"
done
n_done=$(find INT/checkpoints -maxdepth 1 -name '[0-9]*' -printf '%f\n' | sort -n | tail -1)
run 0 prove train --resume INT --rounds $((n_done + 1)) --quiet
run 0 prove train "${small[@]}" --eval-every 0 --rounds $((n_done + 1)) --out whole
diff -r whole/checkpoints/$((n_done + 1)) INT/checkpoints/$((n_done + 1)) > diff.txt || fail "an interrupted run differs: $(cat diff.txt)"

# --- killed at the end, before each file gets its name: nothing is told twice, and no temporary stays ---
n=0
for file in last.safetensors policy.safetensors evaluation.json; do
    # the first of these comes after those of the marker, config.ini and the checkpoint of round 3, the others follow it
    for ((n++; n < 20; n++)); do
        ES_FILE_FAULT=rename:$n:kill "$esper" prove train "${small[@]}" --rounds 3 --threads 1 --out "killed-$n" > /dev/null 2>&1
        expect_text "exit code at rename $n" "$?" 137
        [[ -z $(find "killed-$n" -maxdepth 1 -name "$file.*-0.tmp") ]] || break
    done
    touch "killed-$n/$file.tmp" "killed-$n/mine.1-0.tmp" "killed-$n/$file.bak.1-0.tmp" # not ours
    ln -s mine "killed-$n/mine.2-0.tmp"
    run 0 prove train --resume "killed-$n" --quiet
    expect_text "temporaries after rename $n" "$(find "killed-$n" -name '*.tmp' -printf '%f\n' | sort | tr '\n' ' ')" \
        "$(printf '%s\n' "$file.bak.1-0.tmp" "$file.tmp" mine.1-0.tmp mine.2-0.tmp | sort | tr '\n' ' ')"
    expect_text "rankings after rename $n" "$(ask "killed-$n" "select group_concat(k, ' ') from (select round || split || count(*) as k
        from rankings group by round, arm, split order by round, arm)")" "2valid1 3valid1 4test1 4test1 4test1 4test1 4test1 4test1"
    expect_text "metrics after rename $n" "$(ask "killed-$n" "select count(*) - count(distinct round || name) from metrics")" 0
done

# --- one step has no variance, which is no anomaly ---
run 0 prove train "${small[@]}" --envs 1 --steps 1 --rounds 2 --eval -1 --eval-every 0 --out single
expect_text "numbers that went wrong in one step" "$(ask single "select group_concat(detail) from anomalies where rule = 'numerical_instability'")" ""

# --- a damaged checkpoint is passed over ---
cp -r a damaged
truncate -s 1000 damaged/checkpoints/5/training.bin
run 0 prove train --resume damaged --quiet --eval -1
expect_part "a damaged checkpoint" "$err" "checkpoint"
diff -r a/checkpoints/5 damaged/checkpoints/5 > diff.txt || fail "played again it differs: $(cat diff.txt)"

# --- weights that have run away: of few rounds the gradients overflow, then the outputs ---
for name in runaway lost; do
    run 0 prove train "${small[@]}" --rounds 1 --eval -1 --eval-every 0 --out $name
done
"$make_diverged_proofs" runaway 1e10 || fail "cannot multiply weights"
run 1 prove train --resume runaway --rounds 3 --quiet
expect_part "diverged" "$err" "esper prove train: the run diverged: from round 3 on no loss was finite, or no update had a finite step"
[[ -e runaway/checkpoints/3/DONE ]] || fail "a run that diverged is not saved"
run 1 prove train --resume runaway --rounds 9 --quiet
expect_part "diverged for long" "$err" "3 updates in a row without a step"
"$make_diverged_proofs" lost 1e30 || fail "cannot multiply weights"
run 1 prove train --resume lost --rounds 3 --quiet
expect_part "lost" "$err" "the return is not finite"

# --- a graph of files ---
mkdir kg
printf 'q(a,b).\nq(b,d).\nq(c,c).\np(b,a).\n' > kg/train.txt
printf 'r1:1:q(x,y), q(y,z) -> p(x,z)\n' > kg/rules.txt
printf 'p(a,d).\np(d,a).\n' > kg/test.txt
tiny=(--envs 4 --steps 4 --policy.embed=4 --policy.hidden=8 --rounds 2 --quiet)
run 0 prove train --data kg "${tiny[@]}" --out files
expect_text "validations without queries" "$(ask files "select count(*) from rankings where split = 'valid'")" 0
(cd kg && "$esper" prove train --resume ../files --rounds 3 --quiet > /dev/null 2> ../err.txt) || fail "resumed from elsewhere: $(cat err.txt)"
printf 'q(d,d).\n' >> kg/train.txt
run 2 prove train --resume files --rounds 4 --quiet
expect_part "changed graph" "$err" "the knowledge graph is not the one this run began with"

# --- the settings that come with the program ---
run 0 prove train --config "$root/configs/prove_generated.ini" --dry-run
expect_part "dry run" "$out" "# policy"
expect_part "dry run" "$out" "# time"
for preset in ranking umls umls_search family; do
    run 0 prove train --config "$root/configs/prove_$preset.ini" --generated 60 --envs 2 --dry-run
    expect_part "$preset" "$out" "# queries"
done

# --- proofs alone: the same bits for any threads and after a resume, and proofs by depth at the end ---
alone=(--config "$root/configs/prove_generated.ini" --generated 60 --envs 16 --ppo.anneal_rounds=6 --quiet)
run 0 prove train "${alone[@]}" --rounds 6 --threads 1 --json --out alone
proofs=$(sed -n '/"proofs"/,$p' <<< "$out")
for part in '"trained": ' '"untrained": ' '"uniform": ' '"breadth": ' '"3 or more": ' '"2": ' '"low": ' '"nodes": 20'; do
    expect_part "JSON of proofs" "$proofs" "$part"
done
run 0 prove train "${alone[@]}" --rounds 2 --threads 2 --out parts
run 0 prove train --resume parts --rounds 6 --threads 2 --quiet --json
expect_text "proofs of a resumed run" "$(sed -n '/"proofs"/,$p' <<< "$out")" "$proofs"
cmp alone/policy.safetensors parts/policy.safetensors || fail "proofs alone: another policy after a resume"
run 0 prove train --resume parts --quiet
expect_part "table of proofs" "$out" "proofs within 20 expansions of a query, by the steps of its shortest proof (95 %)"
expect_part "table of proofs" "$out" "3 or more"
run 0 prove eval --generated 80 --graph-seed 9 --policy alone/policy.safetensors --search best_first --nodes 20 --queries 30 \
    --corruptions 2 --json
expect_part "proofs in eval" "$out" '"by_steps": '
run 0 prove eval --generated 80 --graph-seed 9 --queries 5 --corruptions 2 --json
expect_part "no policy, no proofs" "$out" '"proofs": null'

# --- mistakes ---
run 2 prove train --data nowhere
expect_part "no folder" "$err" "nowhere"
run 2 prove train --data kg --generated 10
expect_part "both" "$err" "--data and --generated exclude each other"
run 2 prove train --generated 60 --env.domains=on --out none
expect_part "no domains" "$err" '[env] domains: the graph "generated" has no domains'
[[ ! -e none ]] || fail "a run without its domains has a folder"
run 2 prove train --ppo.rat=1
expect_part "key" "$err" 'unknown key "rat" in [ppo]; did you mean "rate"?'
printf '[prove]\npeople = 60\n[env]\nenvs = many\n' > bad.ini
run 2 prove train --config bad.ini
expect_part "value" "$err" "bad.ini"
printf '[grow]\nenvs = 4\n' > other.ini
run 2 prove train --config other.ini
expect_part "section" "$err" "grow"
run 2 prove train --config a/policy.safetensors
run 0 prove train --help
help=$(grep -e '--device' <<< "$out")
expect_part "devices offered" "$help" "cpu"
[[ $help != *cuda* ]] || fail "--help offers a device that is refused: $help"
run 2 prove train --device cuda --rounds 1
expect_part "device" "$err" "proofs are trained on the cpu"
run 2 prove train --resume a --ppo.rate=0.5 --quiet
expect_part "resumed with another rate" "$err" "[ppo] rate is"
run 2 grow --resume a --quiet
expect_part "run of another kind" "$err" "\`esper prove train --resume a\` goes on with it"
run 2 prove train --dry-run --json
printf 'p(b,a).\n' > kg/train.txt
rm kg/test.txt
run 2 prove train --data kg "${tiny[@]}" --out none
expect_part "no test queries" "$err" "no queries with arguments in the split test"
[[ ! -e none ]] || fail "a run that cannot be made has a folder"

finish
