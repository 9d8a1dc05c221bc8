#!/usr/bin/env bash
# Runs over several ranks: any number of them gives the bits of one process, in rollouts (state
# hashes of every round) and parameters (files of the checkpoint); a run goes on with another number
# of ranks; ranks that differ are refused; a failure of one ends all.
#
# usage: ranks_run_test.sh PATH_TO_ESPER START_RANKS MPIRUN KIND
set -euo pipefail
esper=$1 kind=$4
start() { bash "$start_ranks" "$mpirun" "$@"; }
start_ranks=$2 mpirun=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export ES_RANK_DEADLINE=60

fail() { echo "FAILED: $*" >&2; exit 1; }

case $kind in
    grow)
        # 10 environments: shares of 4, 3, 3; five of the policy's shards are filled. The other configuration has
        # averaged weights, AdamW, a policy of version 2, and networks to keep, which all ranks have grown
        command=(grow)
        run=(grow --envs 10 --episode-steps 14 --step-batches 2 --validation-images 300)
        short=("${run[@]}" --eval 0)
        more=(--recipe.optimiser=adamw --recipe.average=0.9 --policy.version=2 --keep-best 3)
        ;;
    prove)
        command=(prove train)
        # schedules of five rounds, also where a run ends before
        run=(prove train --generated 60 --envs 10 --steps 12 --eval-every 2 --ppo.anneal_rounds=5)
        short=("${run[@]}" --eval -1)
        more=(--policy.encoder=structure)
        ;;
esac
common=(--threads 1 --quiet --seed 7)

hashes() { "$esper" query "$1" 'SELECT round, state_hash FROM rounds WHERE round <= 5 ORDER BY round' --csv; }

same() { # same RUN RUN: the first five rounds, and all of the checkpoint after them but times
    diff <(hashes "$1") <(hashes "$2") > /dev/null || fail "$1 and $2 differ in a state hash"
    [[ $(hashes "$1" | wc -l) -gt 3 ]] || fail "$1 has too few rounds"
    local file
    for file in "$1"/checkpoints/5/*.safetensors "$1"/checkpoints/5/*.bin; do
        [[ ! -e $file ]] || cmp "$file" "$2/checkpoints/5/${file##*/}" || fail "$1 and $2 differ in $file"
    done
    [[ -e $2/checkpoints/5/training.safetensors ]] || fail "$2 has no parameters"
}

# 1, 2, 3, 4 ranks
"$esper" "${short[@]}" "${common[@]}" --rounds 5 --out one > /dev/null
for n in 1 2 3 4; do
    start "$n" "$esper" "${short[@]}" "${common[@]}" --rounds 5 --out "ranks-$n" > /dev/null
    same one "ranks-$n"
done

# another configuration, and threads beside ranks
"$esper" "${short[@]}" "${common[@]}" "${more[@]}" --rounds 5 --out other > /dev/null
start 3 "$esper" "${short[@]}" "${common[@]}" "${more[@]}" --threads 2 --rounds 5 --out other-3 > /dev/null
same other other-3
[[ $kind != grow ]] || diff -r other/networks other-3/networks || fail "other networks were kept"
if diff <(hashes one) <(hashes other) > /dev/null; then fail "the hashes say nothing"; fi

# a run of 3 rounds on 2 ranks goes on with 3 of them, and one of 4 ranks in one process
start 2 "$esper" "${short[@]}" "${common[@]}" --rounds 3 --out resumed > /dev/null
start 3 "$esper" "${command[@]}" --resume resumed --rounds 5 --quiet > /dev/null
same one resumed
start 4 "$esper" "${short[@]}" "${common[@]}" --rounds 2 --out alone > /dev/null
"$esper" "${command[@]}" --resume alone --rounds 5 --quiet > /dev/null
same one alone

# the comparison at the end, in one table
start 2 "$esper" "${run[@]}" "${common[@]}" --rounds 2 --eval 4 --out compared-2 > two.txt
"$esper" "${run[@]}" "${common[@]}" --rounds 2 --eval 4 --out compared > one.txt
diff one.txt two.txt || fail "the comparison differs"

# a sweep whose variants are runs of their own: groups of 2 and 1 ranks run two of them, 2 ranks run three in turns; and
# one whose variants share a run
if [[ $kind == grow ]]; then
    sweep=("${run[@]}" "${common[@]}" --rounds 1 --eval 4)
    "$esper" "${sweep[@]}" --sweep reward=shaped,basic,sparse --out sweep > one.txt
    start 2 "$esper" "${sweep[@]}" --sweep reward=shaped,basic,sparse --out sweep-2 > two.txt
    diff one.txt two.txt || fail "2 ranks: another sweep"
    start 3 "$esper" "${sweep[@]}" --sweep reward=shaped,basic --out sweep-3 > /dev/null
    for variant in 1 2; do
        cmp sweep/variant-$variant/policy.safetensors sweep-3/variant-$variant/policy.safetensors ||
            fail "3 ranks: another policy in variant $variant"
    done
    "$esper" "${sweep[@]}" --policy random --sweep host_rate=0.01,0.1 --out side > one.txt
    start 3 "$esper" "${sweep[@]}" --policy random --sweep host_rate=0.01,0.1 --out side-3 > two.txt
    diff one.txt two.txt || fail "3 ranks: another sweep side by side"
fi

# ranks that differ are refused, and the message says who differs in what
cat > odd.sh <<'END'
if [[ $OMPI_COMM_WORLD_RANK == 1 ]]; then exec "$@" --seed 8; fi
exec "$@" --seed 7
END
status=0
start 3 bash odd.sh "$esper" "${short[@]}" --threads 1 --quiet --rounds 5 --out refused 2> refused.txt || status=$?
[[ $status -eq 2 ]] || fail "ranks of two seeds: exit code $status, expected 2"
grep -q 'the ranks differ in their settings: rank 1 on .* has "seed = 8" where rank 0 on .* has "seed = 7"' refused.txt ||
    { cat refused.txt; fail "the message does not say who differs in what"; }
[[ ! -e refused ]] || fail "a refused run left a folder"

# ranks that read other files under the same name (a mount that one of them has alone) are noticed after the first round,
# or before the comparison, and nothing of it is saved
private=(unshare -m)
[[ $(id -u) -eq 0 ]] || private=(unshare -rm)
echo '2 * germinate r0c1 conv_light style=sigmoid_add tempo=standard' > schedule
echo '3 * germinate r0c1 conv_light style=sigmoid_add tempo=standard' > another
cat > apart.sh <<END
if [[ \$OMPI_COMM_WORLD_RANK != 1 ]]; then exec "\$@"; fi
exec ${private[@]} bash -c 'mount --bind another schedule && exec "\$@"' mounted "\$@"
END
export OMPI_MCA_btl_vader_single_copy_mechanism=none # not between their namespaces
if [[ $kind == grow ]] && ! OMPI_COMM_WORLD_RANK=1 bash apart.sh true 2> /dev/null; then
    echo "no mounts of its own for a rank here: ranks with other files are not tried"
elif [[ $kind == grow ]]; then
    schedule=script:schedule
    for policy in "$schedule" wait; do
        status=0
        start 3 bash apart.sh "$esper" "${run[@]}" "${common[@]}" --policy "$policy" --eval 3 --rounds 2 \
            "--evaluate.against=$schedule" --out "$work/apart-${policy%:*}" > /dev/null 2> apart.txt || status=$?
        [[ $status -eq 2 ]] || { cat apart.txt; fail "ranks with two schedules, $policy: exit code $status, expected 2"; }
        [[ ! -e apart-${policy%:*}/evaluation.json ]] || fail "ranks with two schedules, $policy: there is a comparison"
        [[ $(grep -c 'the ranks differ' apart.txt) -eq 1 ]] || { cat apart.txt; fail "one rank speaks for all"; }
        case $policy in
            script:*)
                grep -q 'differ in their state after round 1: rank 1 on .*not saved' apart.txt ||
                    { cat apart.txt; fail "the message does not say who differs"; }
                [[ ! -e apart-script/checkpoints/1 ]] || fail "a round of ranks that differ was saved"
                ;;
            *)
                grep -q 'differ in their compared policies: rank 1 on .* has "script:' apart.txt ||
                    { cat apart.txt; fail "the message does not say which policy differs"; }
                ;;
        esac
    done
fi

# a rank that fails alone ends the others, and its message is there
cat > lost.sh <<'END'
if [[ $OMPI_COMM_WORLD_RANK == 2 ]]; then exec "$@" --threads 1 --data nonexistent; fi
exec "$@" --threads 1
END
status=0
start 3 bash lost.sh "$esper" "${short[@]}" --quiet --rounds 5 --out lost 2> lost.txt || status=$?
[[ $status -eq 2 ]] || fail "a rank that fails alone: exit code $status, expected 2"
grep -qE "esper .*(nonexistent|--data)" lost.txt || { cat lost.txt; fail "the message of the rank that failed"; }

# rank 0 is asked to stop, long before it is done: all stop, the rounds are saved, and the run goes on, to round 5 at least
start 3 "$esper" "${short[@]}" "${common[@]}" --rounds 2000 --checkpoint.every=1 --checkpoint.keep=100 --out stopped \
    > /dev/null 2> stopped.txt &
job=$!
until [[ -e stopped/checkpoints/1/DONE ]] || ! kill -0 $job 2> /dev/null; do sleep 0.01; done
kill -INT "$(grep -oE '[0-9]+' stopped/lock | head -n 1)"
status=0
wait $job || status=$?
[[ $status -eq 130 ]] || { cat stopped.txt; fail "Ctrl-C: exit code $status, expected 130"; }
n_rounds=$("$esper" query stopped 'SELECT max(max(round) + 1, 5) FROM rounds' --csv | tail -n 1 | tr -d '\r')
start 2 "$esper" "${command[@]}" --resume stopped --rounds "$n_rounds" --quiet > /dev/null
same one stopped

echo "$kind: 1, 2, 3 and 4 ranks agree"
