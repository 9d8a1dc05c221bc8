#!/usr/bin/env bash
# kill -9 at random moments of a short run: the database opens, every view works, and the resumed run ends with the
# same bytes of checkpoints and results as one that was never killed.
#
# usage: kill_test.sh PATH_TO_ESPER N_KILLS [SEED [hosts|grow|fit|fit-rails|fit-rollback]]
set -uo pipefail
esper=$1
n_kills=$2
RANDOM=${3:-1}
command=${4:-hosts}
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
settings=(--threads 1 --quiet --checkpoint.every=1 --checkpoint.keep=2 --telemetry.jsonl=on --telemetry.stride=1)
results=()
case $command in
    hosts)
        rounds=15
        settings+=(--task tiny --envs 2)
        ;;
    grow) # a policy learns, and is compared at the end
        rounds=6
        settings+=(--task tiny --envs 4 --episode-steps 6 --step-batches 2 --validation-images 200 --policy ppo --hidden 16
            --eval 8 "--evaluate.against=wait,random,wider,scratch")
        results=(policy.safetensors evaluation.json)
        ;;
    fit | fit-rails | fit-rollback) # candidates grow, some are dropped, and the best network is kept
        rounds=18
        settings+=(--data tiny --candidates 5 --max-params 4000 --epoch-batches 12 --policy random --recipe.average=0.9)
        results=(networks/1/network.safetensors networks/1/network.json networks/1/confusion.json)
        # budgets and deadlines that are not reached, and threads for the controller
        [[ $command == fit-r* ]] && settings+=(--rails.on=on --rails.epoch_budget_ms=1e6 --rails.hook_budget_ms=1e6
            --rails.controller_deadline_ms=1e6 --rails.seed_deadline_ms=1e6 --rails.halt_failures=9)
        # from an epoch on all exceed the limit and are undone; no breaker, whose time is that of the wall
        [[ $command == fit-rollback ]] && settings+=(--rails.rollback=on --rails.rollback_every=1 --rails.rollback_deadline_ms=1e6
            --rails.gradient_limit=1.4 --rails.breaker_failures=1000 --rails.halt_failures=0)
        command=fit
        ;;
esac
settings+=(--run.rounds="$rounds")
n_before_first=0

start=$(date +%s%N)
"$esper" "$command" "${settings[@]}" --out "$folder/whole" > "$folder/whole.txt" || { fail "the whole run"; exit 1; }
total_ms=$((($(date +%s%N) - start) / 1000000))
mapfile -t views < <("$esper" query "$folder/whole" "select name from sqlite_master where type = 'view'" --csv | tr -d '\r' | tail -n +2)
((${#views[@]} >= 10)) || fail "only ${#views[@]} views"
if [[ ${4:-} == fit-rollback ]]; then
    n_undone=$("$esper" query "$folder/whole" "select count(*) from trainer_events where name = 'tolaria.rollback.restored'" --csv | tr -d '\r' | tail -1)
    ((n_undone >= 4 && n_undone < rounds - 4)) || fail "$n_undone of $rounds epochs were undone"
fi

for ((kill = 1; kill <= n_kills; kill++)); do
    run=$folder/run$kill
    moment_ms=$((RANDOM % total_ms))
    "$esper" "$command" "${settings[@]}" --out "$run" > /dev/null 2>&1 &
    child=$!
    sleep "$((moment_ms / 1000)).$(printf %03d $((moment_ms % 1000)))"
    kill -9 $child 2> /dev/null
    wait $child 2> /dev/null
    if [[ ! -f $run/config.ini ]]; then
        # killed before there was a run: starting it again in the same place must work
        n_before_first=$((n_before_first + 1))
        "$esper" "$command" "${settings[@]}" --out "$run" > "$folder/again.txt" 2>&1 ||
            { fail "kill $kill at $moment_ms ms: cannot start again: $(cat "$folder/again.txt")"; continue; }
    else
        if [[ -f $run/run.db ]]; then
            for view in "${views[@]}"; do
                "$esper" query "$run" "select count(*) from $view" > /dev/null 2> "$folder/err" ||
                    fail "kill $kill at $moment_ms ms: view $view: $(cat "$folder/err")"
            done
        fi
        "$esper" "$command" --resume "$run" --restart --quiet > "$folder/again.txt" 2>&1 ||
            { fail "kill $kill at $moment_ms ms: cannot resume: $(cat "$folder/again.txt")"; continue; }
    fi
    diff -r "$folder/whole/checkpoints/$rounds" "$run/checkpoints/$rounds" > "$folder/diff" ||
        fail "kill $kill at $moment_ms ms: other checkpoint bytes: $(head -3 "$folder/diff")"
    for file in "${results[@]}"; do
        cmp "$folder/whole/$file" "$run/$file" > "$folder/diff" 2>&1 || fail "kill $kill at $moment_ms ms: $(cat "$folder/diff")"
    done
    if [[ $command == grow ]]; then
        n_played=$("$esper" query "$run" "select count(*) from episodes where arm is not null" --csv | tr -d '\r' | tail -1)
        [[ $n_played == 40 ]] || fail "kill $kill at $moment_ms ms: held-out episodes in the database: $n_played, expected 40"
    fi
    [[ -z $(find "$run" -name '*.tmp') ]] || fail "kill $kill at $moment_ms ms: leaves $(find "$run" -name '*.tmp')"
    # every round is in the database once, whatever was written twice
    n_rounds=$("$esper" query "$run" "select count(*) || ' ' || count(distinct round) from rounds" --csv | tr -d '\r' | tail -1)
    [[ $n_rounds == "$rounds $rounds" ]] || fail "kill $kill at $moment_ms ms: rounds in the database: $n_rounds"
    rm -rf "$run"
done
echo "$n_kills kills within $total_ms ms, $n_before_first of them before the run had begun: $n_failed failures"
exit $((n_failed > 0))
