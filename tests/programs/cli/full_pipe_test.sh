#!/usr/bin/env bash
# stderr is a pipe that is full and that nobody reads: training goes on, the program ends, a second Ctrl-C quits.
#
# usage: full_pipe_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$1
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"

# open for reading too, so that writing blocks instead of failing
mkfifo "$folder/pipe"
exec 9<> "$folder/pipe"
dd if=/dev/zero of="$folder/pipe" bs=4096 count=1000 oflag=nonblock 2> /dev/null

# --- a run to its end: the console loses its lines, nothing else is lost ---
timeout -k 1 60 "$esper" hosts --task tiny --envs 1 --threads 1 --rounds 40 --telemetry.queue_packets=10 \
    --out "$folder/a" > "$folder/out" 2>&9
code=$?
[[ $code == 3 ]] || fail "exit code with a full pipe is $code, expected 3 (124 or 137: it hangs)"
grep -q "validation %" "$folder/out" || fail "no results on stdout"
[[ -e $folder/a/checkpoints/40/DONE ]] || fail "the run with a full pipe did not save its last round"
n_rounds=$("$esper" query "$folder/a" "select count(*) from rounds" --csv | tr -d '\r' | tail -1)
[[ $n_rounds == 40 ]] || fail "run.db has $n_rounds rounds, expected 40"
# an error message finds no room either
timeout -k 1 20 "$esper" hosts --nonsense 2>&9
code=$?
[[ $code == 2 ]] || fail "exit code of a wrong command with a full pipe is $code, expected 2"

# --- Ctrl-C twice ends it at once ---
"$esper" hosts --task tiny --envs 1 --threads 1 --rounds 1000000 --out "$folder/b" > /dev/null 2>&9 &
child=$!
for ((i = 0; i < 200; i++)); do
    [[ -e $folder/b/config.ini ]] && break
    sleep 0.05
done
sleep 0.2
kill -s INT $child
sleep 0.5
kill -s INT $child
for ((i = 0; i < 50; i++)); do
    # ended, or a zombie that waits for us
    [[ $(ps -o stat= -p $child) == [A-Y]* ]] || break
    sleep 0.1
done
if ((i == 50)); then
    fail "the second Ctrl-C did not end the program"
    kill -9 $child
fi
wait $child
code=$?
[[ $code == 130 ]] || fail "exit code after two Ctrl-C is $code, expected 130"

finish
