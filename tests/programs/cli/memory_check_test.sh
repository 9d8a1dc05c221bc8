#!/usr/bin/env bash
# Runs that do not fit into memory are refused before they begin, with what they need, what there is, and what would fit. The
# memory is made short with ulimit -v; control groups are tested in base/memory_test.c.
#
# usage: memory_check_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"

if ! (ulimit -v 400000 && "$esper" --version) > /dev/null 2>&1; then
    echo "the program cannot start with so few addresses, as with sanitizers"
    exit 77
fi

refuse() { # KIB of addresses, then the arguments; leaves the message in $err
    (
        ulimit -v "$1"
        exec "$esper" "${@:2}"
    ) > "$folder/out" 2> "$folder/err"
    local code=$?
    err=$(cat "$folder/err")
    [[ $code == 2 ]] || fail "esper ${*:2}: exit code $code, expected 2; $err"
    expect_part "esper ${*:2}" "$err" "of memory, and the limit of ulimit -v has "
    [[ ! -e $folder/a ]] || fail "esper ${*:2} made a folder"
}

hosts=(hosts --task tiny --base 64 --threads 1)
refuse 400000 "${hosts[@]}" --envs 4096 --out "$folder/a"
needed=$(sed -n 's/.*the run needs about \([0-9.]*\) GiB of memory.*/\1/p' <<< "$err")
fitting=$(sed -n 's/.*--envs \([0-9]*\) would fit instead of 4096, and a smaller --batch takes less/\1/p' <<< "$err")
left=$(sed -n 's/.*the limit of ulimit -v has \([0-9.]*\) MiB left.*/\1/p' <<< "$err")
# what is said to fit uses most of what is left, and not more
awk -v needed="$needed" -v fitting="$fitting" -v left="$left" 'BEGIN {
    taken = needed * 1024 * fitting / 4096
    exit !(fitting > 1 && taken > 0.5 * left && taken < left)
}' || fail "4096 hosts need $needed GiB, $fitting of them fit into $left MiB"
run 0 hosts --task tiny --envs 2 --threads 1 --dry-run
[[ $out =~ "# in all      at least "[0-9.]+" MiB of memory; "[a-z]+.*" has "[0-9.]+" "[GM]"iB left" ]] || fail "dry run: $out"
refuse 400000 "${hosts[@]}" --envs 4096 --dry-run
# not even one host
refuse 400000 hosts --task tiny --envs 1 --base 1024 --blocks 4 --batch 2000 --threads 1 --out "$folder/a"
expect_part "one host" "$err" "the run needs more than "

refuse 200000 grow --task tiny --envs 4000 --policy random --eval 0 --threads 1 --out "$folder/a"
expect_part "grow" "$err" "would fit instead of 4000, and a smaller --batch or --validation-images takes less"
mkdir "$folder/seeds"
refuse 200000 grow --task tiny --envs 4000 --policy random --eval 4 --threads 1 --repeat 2 --out "$folder/seeds"
# held-out episodes with hosts of their own are no line in --envs: what is said to fit does
held_out=(grow --task tiny --policy random --eval 512 --rounds 1 --threads 1)
refuse 250000 "${held_out[@]}" --envs 4000 --out "$folder/a"
fitting=$(sed -n 's/.*--envs \([0-9]*\) would fit instead of 4000.*/\1/p' <<< "$err")
[[ $fitting -gt 1 ]] || fail "held-out episodes: $err"
(ulimit -v 250000 && exec "$esper" "${held_out[@]}" --envs "$fitting" --dry-run) > "$folder/out" 2> "$folder/err" ||
    fail "--envs $fitting was said to fit: $(cat "$folder/err")"
refuse 300000 prove train --generated 60 --envs 65536 --steps 64 --threads 1 --out "$folder/a"
expect_part "prove" "$err" "a smaller --steps or graph takes less"

finish
