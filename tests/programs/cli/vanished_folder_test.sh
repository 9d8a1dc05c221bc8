#!/usr/bin/env bash
# The run folder, or a file in it, is removed, renamed or replaced while the run goes on: it is noticed, told, and the run fails
# (a file of telemetry alone: exit code 3).
#
# usage: vanished_folder_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"

# start NAME ROUNDS [ARGUMENTS...]: a run in the background that has saved two rounds; $child is its process
start() {
    local i
    "$esper" hosts --task tiny --envs 8 --threads 1 --rounds "$2" --out "$folder/$1" --checkpoint.every=2 --checkpoint.keep=1000 "${@:3}" \
        > "$folder/out" 2> "$folder/err" &
    child=$!
    for ((i = 0; i < 2000; i++)); do
        # two, whatever their numbers (slow rounds are saved more often): the one before is complete
        (($(find "$folder/$1/checkpoints" -maxdepth 1 -name '[1-9]*' 2> /dev/null | wc -l) >= 2)) && return
        sleep 0.05
    done
    fail "$1 saves no rounds: $(cat "$folder/err")"
}

# end EXPECTED_CODE: the run must end by itself; leaves its messages in $err
end() {
    local i code
    for ((i = 0; i < 2000; i++)); do
        # ended, or a zombie that waits for us
        [[ $(ps -o stat= -p $child) == [A-Y]* ]] || break
        sleep 0.05
    done
    if ((i == 2000)); then
        fail "the run does not notice"
        kill -9 $child
    fi
    wait $child
    code=$?
    err=$(cat "$folder/err")
    [[ $code == "$1" ]] || fail "exit code $code, expected $1: $err"
}

start removed 1000000
until rm -rf "$folder/removed"; do :; done 2> /dev/null
end 1
expect_part "removed" "$err" "esper hosts: the run folder $folder/removed was removed while the run went on"
[[ ! -e $folder/removed/config.ini ]] || fail "a removed run was written again"

start renamed 1000000
mv "$folder/renamed" "$folder/with space"
end 1
expect_part "renamed" "$err" "the run folder $folder/renamed was renamed to $folder/with space while the run went on"
expect_part "renamed" "$err" " rounds are saved there. Go on with: esper hosts --resume '$folder/with space'"
[[ ! -e $folder/renamed ]] || fail "a renamed run was written again under its old name"
n=$(for path in "$folder/with space"/checkpoints/*/; do basename "$path"; done | grep -x '[0-9]*' | sort -n | tail -1)
n=$((n + 1))
run 0 hosts --resume "$folder/with space" --rounds $n --quiet
expect_text "rounds of the renamed run" "$(ask "$folder/with space" "select count(*) from rounds")" $n

# another run stands in its place: it keeps its files, the first one does not write there
start replaced 1000000
first=$child
mv "$folder/replaced" "$folder/elsewhere"
"$esper" hosts --task tiny --envs 1 --threads 1 --rounds 3 --out "$folder/replaced" --quiet > /dev/null || fail "a second run failed"
child=$first
end 1
expect_part "replaced" "$err" "was renamed to $folder/elsewhere while"
expect_text "rounds of the second run" "$(ask "$folder/replaced" "select count(*) from rounds")" 3
run 0 hosts --resume "$folder/replaced" --rounds 4 --quiet

# a folder above it
mkdir "$folder/above"
start above/run 1000000
mv "$folder/above" "$folder/moved"
end 1
expect_part "parent renamed" "$err" "was renamed to $folder/moved/run while"

# Ctrl-C does not hide it: nothing could be resumed under the name that would be told
start stopped 1000000
mv "$folder/stopped" "$folder/stopped-elsewhere"
kill -s INT $child
end 1
expect_part "stopped" "$err" "--resume $folder/stopped-elsewhere"

# files of telemetry: training goes on
for name in run.db events.jsonl; do
    start "without-$name" 8 --quiet --telemetry.jsonl=on
    rm "$folder/without-$name/$name"
    end 3
    expect_part "without $name" "$err" "$folder/without-$name/$name was removed or renamed while it was written"
    [[ -e $folder/without-$name/checkpoints/8/DONE ]] || fail "without $name the run was not saved"
done

finish
