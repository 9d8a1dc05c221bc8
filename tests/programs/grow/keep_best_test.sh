#!/usr/bin/env bash
# esper grow --keep-best writes the best networks of the last round: the same bytes on any number of threads and after a
# resume; export takes them; esper runs removes them with the run.
#
# usage: keep_best_test.sh ESPER
set -euo pipefail
esper=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
    echo "keep_best_test: $*" >&2
    exit 1
}

grow() {
    "$esper" grow --task tiny --envs 5 --policy random --episode-steps 12 --step-batches 2 --validation-images 200 \
        --eval 0 --slots all --gates permissive --quiet "$@" > /dev/null
}

grow --rounds 2 --keep-best 3 --threads 1 --out one
grow --rounds 2 --keep-best 3 --threads 2 --out two
grow --rounds 1 --keep-best 3 --threads 2 --out three
grow --resume three --rounds 2
for rank in 1 2 3; do
    for file in network.json network.safetensors; do
        cmp "one/networks/$rank/$file" "two/networks/$rank/$file" || fail "threads change $rank/$file"
        cmp "one/networks/$rank/$file" "three/networks/$rank/$file" || fail "a resume changes $rank/$file"
    done
done
[[ ! -e one/networks/4 ]] || fail "more networks than asked for"
accuracies=$(grep -h '"validation_accuracy"' one/networks/[123]/network.json | tr -dc '0-9.\n')
[[ $accuracies == "$(sort -rg <<< "$accuracies")" ]] || fail "not the best first: $accuracies"

"$esper" export one --onnx one.onnx --c one-c --torch one.py 2> export.log || fail "export: $(cat export.log)"
[[ -s one.onnx && -s one-c/network.c && -s one.py ]] || fail "an export is empty"
"$esper" export one/networks/2/network.json --c second --name second_best 2> /dev/null
grep -q 'int second_best_predict' second/second_best.h || fail "--name is not used"

"$esper" export one --c small --int8 --data tiny > int8.log 2> /dev/null
grep -q '^2000 validation samples of tiny: [0-9.]* % with floats, [0-9.]* % with 8 bits' int8.log || fail "$(cat int8.log)"
grep -q 'static const signed char' small/network.c || fail "--int8 has no bytes"

refuse() {
    local expected=$1
    shift
    local code=0
    "$@" > refused.log 2>&1 || code=$?
    [[ $code -eq 2 ]] || fail "$*: exit code $code"
    grep -q -- "$expected" refused.log || fail "$*: $(cat refused.log)"
}
refuse "holds no network" "$esper" export . --onnx x.onnx
refuse "export as what" "$esper" export one
refuse "needs --data" "$esper" export one --c x --int8
refuse "the network takes 1 x 16 x 16" "$esper" export one --c x --int8 --data generated
refuse "no name for a function" "$esper" export one --c x --name 9lives
refuse "a round has 5 hosts" "$esper" grow --task tiny --envs 5 --rounds 1 --keep-best 6 --eval 0 --out six
refuse "there is none" "$esper" grow --task tiny --envs 5 --rounds 0 --keep-best 1 --eval 1 --policy wait --out none

# a network's folder is the run's; a file of somebody else in it stays
echo mine > two/networks/1/notes.txt
"$esper" runs --prune --yes one two > /dev/null 2>&1 || true
[[ ! -e one ]] || fail "$(find one)"
[[ -e two/networks/1/notes.txt && ! -e two/networks/1/network.json && ! -e two/networks/2 ]] || fail "$(find two)"
