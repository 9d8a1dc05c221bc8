#!/usr/bin/env bash
# The policy under policies/ does what its README says, on the preset it was trained with: it grows, and what it grows is better
# than the host alone on images and episodes that no training has seen.
#
# usage: shipped_policy_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$1
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
root=$(cd "$(dirname "$0")/../../.." && pwd)
cd "$folder" || exit 1

run 0 grow --config "$root/configs/tiny.ini" --policy "$root/policies/tiny.safetensors" --rounds 0 --eval 16 \
    --evaluate.against=wait --quiet --out played
# 16 pairs: the difference recorded over 64 is more than twice this, so that another vector width does not fail it
gain=$(ask played "select avg(p.test_accuracy) - avg(w.test_accuracy) from episodes p join episodes w on p.episode = w.episode
    where p.arm <> 'wait' and w.arm = 'wait'")
awk -v gain="$gain" 'BEGIN { exit !(gain > 7) }' || fail "test accuracy gained over waiting is $gain points, expected more than 7"
fossils=$(ask played "select avg(n_fossils) from episodes where arm <> 'wait'")
awk -v fossils="$fossils" 'BEGIN { exit !(fossils >= 1) }' || fail "an episode has $fossils fossils, expected one or more"

# a host with other slots is refused before anything is played
run 2 grow --config "$root/configs/tiny.ini" --policy "$root/policies/tiny.safetensors" --slots r0c1 --rounds 0 --eval 4
expect_part "other slots" "$err" "trained with --slots r0c0,r0c1"
finish
