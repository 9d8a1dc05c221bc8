#!/usr/bin/env bash
# A policy that a small village has taught proves, in villages that it has not seen and on a graph of other names, at
# least twice as many queries of three steps or more within 20 expansions as uniform best-first search. A quarter of the
# preset's rounds is enough for that. With ES_KG_DIR it does so on family, too.
#
# usage: prove_transfer_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
root=$(realpath "$(dirname "$0")/../../..")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1

run 0 prove train --config "$root/configs/prove_generated.ini" --rounds 100 --seed 1 --quiet --out village
expect_part "its own village" "$out" "3 or more"

# expect_twice NAME ARGUMENTS...: of the proofs within 20 expansions
expect_twice() {
    local name=$1 trained uniform
    shift
    run 0 prove curve --min-depth 3 --nodes 20 --value-weight 4 --policy village/policy.safetensors "$@"
    read -r _ trained _ uniform _ < <(grep -E '^ +20 ' <<< "$out")
    echo "$name: $trained proofs, uniform $uniform"
    ((uniform > 0 && trained >= 2 * uniform)) || fail "$name: $trained proofs, uniform best-first has $uniform"
}

expect_twice "another village" --generated 300 --graph-seed 7 --max-depth 6
expect_twice "a larger village" --generated 1000 --graph-seed 11 --max-depth 6

# a village under names that no policy was trained on: the same proofs
run 0 prove export --generated 200 --graph-seed 3 --out kin.pl
sed "s/'\([a-z]\)/'other_\1/g" kin.pl > other.pl
cmp -s kin.pl other.pl && fail "the names are still the same"
for graph in kin other; do
    run 0 prove curve --data $graph.pl --split train --queries 200 --min-depth 2 --max-depth 4 --nodes 20 --value-weight 4 \
        --policy village/policy.safetensors --json
    sed -n '/"arms"/,/"seconds"/p' <<< "$out" | grep -v seconds > $graph.txt
done
[[ -s kin.txt ]] || fail "no results"
cmp kin.txt other.txt || fail "other names have other proofs"

if [[ -n ${ES_KG_DIR:-} ]]; then
    expect_twice "family" --data "$ES_KG_DIR/family" --max-depth 4
fi
finish
