#!/usr/bin/env bash
# `esper watch` in terminals of 80 x 24 and 160 x 50, by tmux: numbers of run.db, keys, a live run, replay, a terminal that
# changes its size; and plain lines without a terminal.
#
# usage: watch_test.sh PATH_TO_ESPER CONFIGS
# shellcheck disable=SC2317 # functions that wait_until calls
set -uo pipefail
esper=$1
configs=$2
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1
export LC_ALL=C.UTF-8

run 0 grow --config "$configs/tiny.ini" --rounds 3 --eval 0 --envs 4 --episode-steps 14 --threads 2 --quiet --out grown
run 0 fit --data tiny --epochs 6 --epoch-batches 10 --candidates 2 --rails.on=on --rails.epoch_budget_ms=0.5 --quiet --out fit
run 0 prove train --config "$configs/prove_generated.ini" --rounds 5 --quiet --out proofs
run 0 hosts --rounds 2 --threads 2 --quiet --out hosts

# plain lines, without a terminal
for name in grown fit proofs hosts; do
    run 0 watch $name
    expect_part "the lines of $name" "$out" "$name  "
    accuracy=$(ask_percent $name "SELECT accuracy FROM rounds ORDER BY round DESC LIMIT 1")
    expect_part "the lines of $name" "$out" "$accuracy"
    [[ $out != *$'\x1b'* ]] || fail "$name: escapes without a terminal"
done
run 0 watch fit
expect_part "rails" "$out" "tolaria.epoch_budget_exceeded"
expect_part "a fit has epochs" "$out" "epoch 6 of 6"
expect_part "a fit has candidates" "$out" "Candidates: validation accuracy, %"
[[ $out != *nan* ]] || fail "a number that is none: $(grep nan <<< "$out")"
run 0 watch proofs
best=$(ask proofs "SELECT predicate || ' ' || printf('%.1f %% of %d', sum(n_proved) * 100.0 / sum(n_asked), sum(n_asked))
    FROM proof_predicates WHERE label = 1 GROUP BY predicate ORDER BY sum(n_proved) * 1.0 / sum(n_asked) DESC, sum(n_asked) DESC, predicate LIMIT 1")
worst=$(ask proofs "SELECT predicate || ' ' || printf('%.1f %% of %d', sum(n_proved) * 100.0 / sum(n_asked), sum(n_asked))
    FROM proof_predicates WHERE label = 1 GROUP BY predicate ORDER BY sum(n_proved) * 1.0 / sum(n_asked), sum(n_asked), predicate DESC LIMIT 1")
# depth_of DEPTH ROUNDS: as the terminal has it
depth_of() {
    ask proofs "SELECT '$1: ' || printf('%.0f %% of %d', sum(n_proved) * 100.0 / sum(n_asked), sum(n_asked)) FROM proof_depths
        WHERE label = 1 AND counted_by = 'proof' AND depth = $1 AND round <= $2"
}
expect_part "the proofs by depth" "$out" "Proved, by steps of the shortest proof"
expect_part "the proofs by depth" "$out" "$(depth_of 2 5)   $(depth_of 3 5)   "
expect_part "the worst predicate" "$(tr -s ' ' <<< "${out#*Best and worst predicates}")" "$worst"
expect_part "the best predicate" "$(tr -s ' ' <<< "${out#*Best and worst predicates}")" "$best"
run 2 watch
run 2 watch no-such-run

# a name that would command the terminal
evil=$'a\x1b[31mb'
run 0 hosts --rounds 1 --threads 2 --quiet --out "$evil"
run 0 watch "$evil"
[[ $out != *$'\x1b'* ]] || fail "a name commands the terminal"

run 0 watch --help
if ! command -v tmux > /dev/null; then
    echo "skipped: no tmux for the terminals"
    ((n_failed == 0)) && exit 77
    finish
fi
if [[ $(ldd "$esper") != *ncurses* ]]; then
    echo "skipped: no ncurses in this build"
    ((n_failed == 0)) && exit 77
    finish
fi

socket=esper-watch-$$
terminal() { tmux -L "$socket" -f /dev/null "$@"; }
trap 'terminal kill-server 2> /dev/null; rm -rf "$folder"' EXIT
shown() { terminal capture-pane -p -t watch; }

# wait_until MESSAGE COMMAND...: until it succeeds, at most 60 s
wait_until() {
    local i
    for ((i = 0; i < 600; i++)); do
        "${@:2}" && return 0
        sleep 0.1
    done
    fail "$1: $(shown)"
}

shows() { [[ $(shown) == *"$1"* ]]; }
keys_are_in_line() { [[ $(shown | wc -l) == "$1" && $(shown | tail -1) == *"q quit"* ]]; }
is_up_to_date() { ! shows "not up to date" && shows "round 3 of 3"; }
has_round() { (($(ask "$1" "SELECT count(*) FROM rounds" 2> /dev/null || echo 0) > 0)); }
round_shown() { shown | sed -n '1s/.*round \([0-9]*\) of.*/\1/p'; }
is_past() { (($(round_shown) > $1)); }

# wait_for TEXT: until the screen shows it
wait_for() { wait_until "the screen does not show \"$1\"" shows "$1"; }

# open_terminal COLUMNS LINES ARGUMENTS...
open_terminal() {
    terminal new-session -d -s watch -x "$1" -y "$2" "TERM=screen-256color '$esper' watch ${*:3}; echo over; sleep 60"
}

# head_line COLUMN NAME CONDITION: the value that was chosen most, as the line of a head begins
head_line() {
    printf '%-13s%s' "$2" "$(ask grown "SELECT printf('%s %.0f %%', $1, 100.0 * count(*) / (SELECT count($1) FROM event_decision_taken $3))
        FROM event_decision_taken $3 GROUP BY $1 HAVING $1 IS NOT NULL ORDER BY count(*) DESC, $1 LIMIT 1")"
}
operations=$(head_line op operation "WHERE (round, step) IN (SELECT round, step FROM event_env_stepped)")
operations=${operations:13}

for size in "80 24" "160 50"; do
    read -r columns lines <<< "$size"
    open_terminal "$columns" "$lines" grown
    wait_for "round 3 of 3"
    wait_for "$(ask_percent grown "SELECT accuracy FROM rounds WHERE round = 3")"
    wait_for "q quit"
    wait_for "Seeds of environment"
    wait_for "Anomalies"
    if ((lines == 24)); then
        wait_for "Chosen, last 20 rounds: $operations"
        ! shows "alpha_curve" || fail "$size: there is no room for all heads"
    else
        wait_for "operation    $operations"
        for head in slot blueprint style alpha_speed alpha_curve; do
            wait_for "$(head_line $head $head "")"
        done
        wait_for "tempo        $(ask grown "SELECT tempo FROM event_decision_taken WHERE tempo IS NOT NULL GROUP BY tempo
            ORDER BY count(*) DESC, tempo LIMIT 1") step"
        wait_for "alpha_target"
    fi
    [[ $(shown | wc -l) == "$lines" ]] || fail "$size: $(shown | wc -l) lines"
    (($(shown | awk '{ print length }' | sort -n | tail -1) <= columns)) || fail "$size: a line is too long"
    [[ $(shown | tail -1) == *"q quit"* ]] || fail "$size: the keys are not at the bottom: $(shown | tail -1)"
    # an earlier round, and back
    terminal send-keys -t watch Down
    wait_for "[at round 2]"
    wait_for "$(ask_percent grown "SELECT accuracy FROM rounds WHERE round = 2")"
    terminal send-keys -t watch l
    wait_for "$(ask_percent grown "SELECT accuracy FROM rounds WHERE round = 3")"
    # an environment
    terminal send-keys -t watch Right Right
    wait_for "Seeds of environment 1"
    terminal send-keys -t watch '?'
    wait_for "G germinated"
    terminal send-keys -t watch '?'
    # replay
    terminal send-keys -t watch r
    wait_for "[replay, round 1]"
    wait_for "[replay, round 2]"
    # another size
    terminal resize-window -t watch -x 100 -y 30
    wait_until "$size: not drawn anew after a change of size" keys_are_in_line 30
    # a database that cannot be read for a while: the last frame stays, and says so
    terminal send-keys -t watch l
    accuracy=$(ask_percent grown "SELECT accuracy FROM rounds WHERE round = 3")
    wait_for "$accuracy"
    mv grown/run.db away.db
    wait_for "not up to date"
    wait_for "$accuracy"
    mv away.db grown/run.db
    wait_until "$size: not read again" is_up_to_date
    terminal send-keys -t watch q
    wait_for "over"
    terminal kill-session -t watch
done

# proofs: by depth, best and worst predicates; of an earlier round those that it had
for size in "80 24" "160 50"; do
    read -r columns lines <<< "$size"
    open_terminal "$columns" "$lines" proofs
    wait_for "Proved, by steps of the shortest proof"
    wait_for "$(depth_of 2 5)"
    wait_for "${best%% *}  "
    wait_for "${best#* }"
    wait_for "${worst%% *}  "
    wait_for "${worst#* }"
    wait_for "Anomalies"
    (($(shown | awk '{ print length }' | sort -n | tail -1) <= columns)) || fail "$size: a line of proofs is too long"
    # a proof where there is room for it
    if ((lines == 50)); then
        wait_for "Newest proof, round $(ask proofs "SELECT max(round) FROM proof_trees")"
        wait_for "  $(ask proofs "SELECT trim(substr(proof, instr(proof, char(10)), instr(substr(proof, instr(proof, char(10))), char(9)) - 1), char(10) || ' ')
            FROM event_proof_found ORDER BY rowid DESC LIMIT 1" | tr -d '"')  "
    else
        ! shows "Newest proof" || fail "$size: a proof in the place of events"
    fi
    terminal send-keys -t watch Down
    wait_for "[at round 4]"
    wait_for "$(depth_of 2 4)"
    terminal send-keys -t watch q
    wait_for "over"
    terminal kill-session -t watch
done

# a run that is going on
"$esper" hosts --rounds 100000 --threads 1 --quiet --out live > /dev/null 2>&1 &
live=$!
wait_until "the run does not begin" has_round live
open_terminal 80 24 live
wait_for "going on"
wait_until "rounds do not go on" is_past "$(round_shown)"
kill -INT $live
wait $live
wait_for "interrupted"
# Ctrl-C ends it, and the terminal is as it was
terminal send-keys -t watch C-c
wait_for "over"
finish
