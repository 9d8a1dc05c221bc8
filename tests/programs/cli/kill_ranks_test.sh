#!/usr/bin/env bash
# A rank that dies or hangs: the others stop, the last complete checkpoint stays, and tools/run_supervised ends with the
# bytes of a run in one process. kill -9 of a random rank at random moments; then SIGSTOP, which only the deadline shows.
#
# usage: kill_ranks_test.sh PATH_TO_ESPER START_RANKS MPIRUN RUN_SUPERVISED N_KILLS [SEED]
set -uo pipefail
esper=$1 start_ranks=$2 mpirun=$3 supervise=$4 n_kills=$5
RANDOM=${6:-1}
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
rounds=10
settings=(--threads 1 --quiet --checkpoint.every=1 --task tiny --envs 6 --episode-steps 10 --step-batches 3
    --validation-images 400 --policy ppo --hidden 16 --eval 6 "--evaluate.against=wait" "--run.rounds=$rounds")
export ES_RANK_DEADLINE=20

"$esper" grow "${settings[@]}" --out "$folder/whole" > /dev/null || { fail "the whole run"; exit 1; }

# Starts $2 ranks under supervision in the run folder $1; sets $job.
supervised() {
    "$supervise" "$1" bash "$start_ranks" "$mpirun" "$2" "$esper" grow "${settings[@]}" > "$1.txt" 2>&1 &
    job=$!
}

# The processes of the ranks of run folder $1, those with its name among their arguments.
ranks_of() {
    local pid
    for pid in $(pgrep -f -- "$1"); do
        [[ $(cat "/proc/$pid/comm" 2> /dev/null) != esper ]] || echo "$pid"
    done
}

same() { # run folder, what was done to it
    diff -r "$folder/whole/checkpoints/$rounds" "$1/checkpoints/$rounds" > "$folder/diff" ||
        fail "$2: other checkpoint bytes: $(head -3 "$folder/diff")"
    cmp "$folder/whole/policy.safetensors" "$1/policy.safetensors" > "$folder/diff" 2>&1 || fail "$2: $(cat "$folder/diff")"
    cmp "$folder/whole/evaluation.json" "$1/evaluation.json" > "$folder/diff" 2>&1 || fail "$2: $(cat "$folder/diff")"
}

start=$(date +%s%N)
supervised "$folder/timed" 3
wait $job || fail "a run that nobody kills: $(tail -n 3 "$folder/timed.txt")"
total_ms=$((($(date +%s%N) - start) / 1000000))
same "$folder/timed" "nothing"

n_hit=0
for ((kill = 1; kill <= n_kills; kill++)); do
    run=$folder/run$kill
    moment_ms=$((RANDOM % total_ms))
    supervised "$run" 3
    sleep "$((moment_ms / 1000)).$(printf %03d $((moment_ms % 1000)))"
    mapfile -t pids < <(ranks_of "$run")
    if ((${#pids[@]} > 0)); then
        kill -9 "${pids[RANDOM % ${#pids[@]}]}" 2> /dev/null && n_hit=$((n_hit + 1))
    fi
    wait $job || fail "kill $kill at $moment_ms ms: not finished: $(tail -n 5 "$run.txt")"
    same "$run" "kill $kill at $moment_ms ms"
    rm -rf "$run"
done

# The process of rank $2 of run folder $1.
rank_of() {
    local pid
    for pid in $(ranks_of "$1"); do
        ! tr '\0' '\n' < "/proc/$pid/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$2" || echo "$pid"
    done
}

# a rank that is stopped: the others notice by the deadline, which starting must meet as well, and say who it is
export ES_RANK_DEADLINE=10
run=$folder/stopped
supervised "$run" 3
until [[ -e $run/checkpoints/2/DONE ]] || ! kill -0 $job 2> /dev/null; do sleep 0.02; done
pid=$(rank_of "$run" 1)
start=$(date +%s%N)
kill -STOP "${pid:-none}" || fail "SIGSTOP: no rank to stop"
until grep -q 'did not answer' "$run.txt" || ((($(date +%s%N) - start) / 1000000000 > 90)); do sleep 0.02; done
noticed_ms=$((($(date +%s%N) - start) / 1000000))
grep -q 'waited 10 s (ES_RANK_DEADLINE) at .* for rank 1 of 3' "$run.txt" || fail "SIGSTOP: $(tail -n 5 "$run.txt")"
((noticed_ms < 60000)) || fail "SIGSTOP: noticed after $noticed_ms ms"
wait $job || fail "SIGSTOP: not finished: $(tail -n 5 "$run.txt")"
same "$run" "SIGSTOP"

# Ctrl-C at the terminal: everybody in the process group has the signal, mpirun ends with 1, and nothing starts again
export ES_RANK_DEADLINE=20
run=$folder/interrupted
setsid env --default-signal=INT "$supervise" "$run" bash "$start_ranks" "$mpirun" 3 "$esper" grow "${settings[@]}" \
    --run.rounds=500 > "$run.txt" 2>&1 &
job=$!
until [[ -e $run/checkpoints/2/DONE ]] || ! kill -0 $job 2> /dev/null; do sleep 0.02; done
kill -INT -- "-$job" || fail "no run to interrupt"
status=0
wait $job || status=$?
((status == 130)) || fail "Ctrl-C: exit code $status, expected 130: $(tail -n 5 "$run.txt")"
! grep -q 'going on' "$run.txt" || fail "Ctrl-C: started again"
[[ $(grep -c 'stopping after' "$run.txt") -eq 1 ]] || fail "Ctrl-C: one rank speaks for all: $(cat "$run.txt")"

echo "$n_kills kills within $total_ms ms, $n_hit of them of a running rank; SIGSTOP noticed after $noticed_ms ms: $n_failed failures"
exit $((n_failed > 0))
