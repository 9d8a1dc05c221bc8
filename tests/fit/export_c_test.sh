#!/usr/bin/env bash
# The exported C of twelve random networks, compiled by gcc and clang without a warning, gives our logits.
#
# usage: export_c_test.sh MAKE_EXPORTS RUN_EXPORT_C
set -euo pipefail
make_exports=$1
harness=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ES_EXPORTS=$folder "$make_exports" > /dev/null
n=0
for compiler in gcc clang; do
    command -v "$compiler" > /dev/null || { echo "no $compiler here"; continue; }
    for network in "$folder"/[0-9]*/; do
        "$compiler" -std=c99 -Wall -Wextra -Werror -pedantic -O2 -I"$network" -o "$folder/run" \
            "$harness" "$network/network.c" -lm
        "$folder/run" "$network" || { echo "$compiler, network $(basename "$network")" >&2; exit 1; }
        "$compiler" -std=c99 -Wall -Wextra -Werror -pedantic -O2 -I"$network/int8" -o "$folder/run" \
            "$harness" "$network/int8/network.c" -lm
        "$folder/run" "$network" "$(cat "$network/int8/n_equal")" ||
            { echo "$compiler, int8, network $(basename "$network")" >&2; exit 1; }
        n=$((n + 1))
    done
    # what a microcontroller would not have
    "$compiler" -std=c99 -O2 -c -o "$folder/network.o" "$folder/1/network.c"
    if nm -u "$folder/network.o" | grep -E ' (malloc|calloc|free|printf|fopen)$'; then
        echo "the exported C allocates or prints" >&2
        exit 1
    fi
    # static memory is what the header says
    for part in 1 1/int8; do
        said=$(sed -n 's/.* \([0-9]*\) bytes of static memory.*/\1/p' "$folder/$part/network.h")
        "$compiler" -std=c99 -O2 -c -o "$folder/network.o" "$folder/$part/network.c"
        taken=0
        while read -r size; do
            taken=$((taken + 16#$size))
        done < <(nm -S "$folder/network.o" | awk '$3 == "b" { print $2 }')
        [[ $said == "$taken" ]] || { echo "$compiler, $part: $taken bytes of static memory, the header says $said" >&2; exit 1; }
    done
done
[[ $n -ge 12 ]] || { echo "no compiler was found" >&2; exit 1; }
