#!/usr/bin/env bash
# A fit over several ranks: any number of them gives the bits of one process, in every epoch's state, the checkpoints and
# the network; a fit goes on with another number of ranks, after Ctrl-C and after a rank was killed; what cannot be
# divided is refused.
#
# usage: ranks_fit_test.sh PATH_TO_ESPER START_RANKS MPIRUN RUN_SUPERVISED [KILLS]
set -euo pipefail
esper=$1 start_ranks=$2 mpirun=$3 supervise=$4 kills=${5:-2}
RANDOM=3
start() { bash "$start_ranks" "$mpirun" "$@"; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export ES_RANK_DEADLINE=60

fail() { echo "FAILED: $*" >&2; exit 1; }

# 7 candidates in groups of several hosts, shares of 3, 2, 2 that cut groups; some are dropped after epochs 1 and 2
fit=(fit --data tiny --max-params 4000 --epoch-batches 3 --candidates 7 --threads 1 --quiet --seed 7
    --checkpoint.every=1 --checkpoint.keep=100)

hashes() { "$esper" query "$1" 'SELECT round, state_hash FROM rounds ORDER BY round' --csv; }

same() { # same RUN RUN: all epochs, and the checkpoints and networks, byte by byte
    [[ $(hashes "$1" | sort -u -t, -k2 | wc -l) -gt 5 ]] || fail "the hashes of $1 say nothing"
    diff <(hashes "$1") <(hashes "$2") > /dev/null || fail "$1 and $2 differ in a state hash"
    diff -r "$1/checkpoints" "$2/checkpoints" || fail "$1 and $2 differ in a checkpoint"
    diff -r "$1/networks" "$2/networks" || fail "$1 and $2 have other networks"
}

# 1, 2, 3, 4 ranks, and threads beside ranks
"$esper" "${fit[@]}" --epochs 6 --out one > one.txt
for n in 1 2 3 4; do
    start "$n" "$esper" "${fit[@]}" --epochs 6 --out "ranks-$n" > "$n.txt"
    same one "ranks-$n"
    diff <(sed 's/ranks-.//; s/one//' one.txt) <(sed 's/ranks-.//; s/one//' "$n.txt") || fail "$n ranks print other results"
done
more=(--recipe.optimiser=adamw --recipe.average=0.9 --rate 0.01 --policy random --epochs 5)
"$esper" "${fit[@]}" "${more[@]}" --out other > /dev/null
start 3 "$esper" "${fit[@]}" "${more[@]}" --threads 2 --out other-3 > /dev/null
same other other-3

# another number of ranks goes on
cp -r ranks-3 resumed
rm -rf resumed/checkpoints/{3,4,5,6} resumed/networks
start 2 "$esper" fit --resume resumed --quiet > /dev/null
same one resumed
cp -r ranks-2 alone
rm -rf alone/checkpoints/{2,3,4,5,6} alone/networks
"$esper" fit --resume alone --quiet > /dev/null
same one alone

# a time limit is rank 0's; all choose the same number of epochs
start 3 "$esper" fit --data tiny --max-params 4000 --epoch-batches 2 --candidates 3 --threads 1 --quiet --max-seconds 3 \
    --out timed > /dev/null || fail "a fit within a time"
n=$("$esper" query timed 'SELECT max(round) FROM rounds' --csv | tail -n 1 | tr -d '\r')
[[ $n -ge 1 && -e timed/networks/1/network.json ]] || fail "a fit within a time has $n epochs"

# killed ranks: the fit is restarted and ends with the same bytes
for ((kill = 1; kill <= kills; kill++)); do
    "$supervise" "killed-$kill" bash "$start_ranks" "$mpirun" 3 "$esper" "${fit[@]}" --epochs 6 > "killed-$kill.txt" 2>&1 &
    job=$!
    until [[ -e killed-$kill/checkpoints/$kill/DONE ]] || ! kill -0 $job 2> /dev/null; do sleep 0.01; done
    pids=()
    for pid in $(pgrep -f -- "killed-$kill"); do
        [[ $(cat "/proc/$pid/comm" 2> /dev/null) != esper ]] || pids+=("$pid")
    done
    ((${#pids[@]} == 0)) || kill -9 "${pids[RANDOM % ${#pids[@]}]}" 2> /dev/null || true
    wait $job || { cat "killed-$kill.txt"; fail "kill $kill: not finished"; }
    diff -r one/checkpoints/6 "killed-$kill/checkpoints/6" || fail "kill $kill: another checkpoint"
    diff -r one/networks "killed-$kill/networks" || fail "kill $kill: another network"
done

# Ctrl-C at rank 0: the epoch is finished, saved, and the fit goes on
"$esper" "${fit[@]}" --epochs 40 --out long > /dev/null
start 3 "$esper" "${fit[@]}" --epochs 40 --out stopped > /dev/null 2> stopped.txt &
job=$!
until [[ -e stopped/checkpoints/1/DONE ]] || ! kill -0 $job 2> /dev/null; do sleep 0.01; done
kill -INT "$(grep -oE '[0-9]+' stopped/lock | head -n 1)"
status=0
wait $job || status=$?
[[ $status -eq 130 ]] || { cat stopped.txt; fail "Ctrl-C: exit code $status, expected 130"; }
start 2 "$esper" fit --resume stopped --quiet > /dev/null
same long stopped

# refusals: rails, the comparison, ranks that differ
refused() { # PATTERN ARGUMENTS...
    local pattern=$1 status=0
    shift
    start 2 "$@" --out refused > /dev/null 2> refused.txt || status=$?
    [[ $status -ne 0 ]] || fail "$*: not refused"
    grep -q -- "$pattern" refused.txt || { cat refused.txt; fail "$*: the message"; }
    [[ ! -e refused ]] || fail "$*: a refused fit left a folder"
}
refused '2 ranks: the deadlines of rails' "$esper" "${fit[@]}" --epochs 2 --rails.on=on
refused '2 ranks: --compare runs in one process' "$esper" "${fit[@]}" --epochs 2 --compare 2
cat > odd.sh <<'END'
if [[ $OMPI_COMM_WORLD_RANK == 1 ]]; then exec "$@" --candidates 6; fi
exec "$@"
END
refused 'differ in their settings: rank 1 on .* has "candidates = 6" where rank 0' bash odd.sh "$esper" "${fit[@]}" \
    --max-seconds 2

echo "fit: 1, 2, 3 and 4 ranks agree"
