#!/usr/bin/env bash
# esper predict: one row per input, the same on stdout and with --out, escaped names, a pipe that ends, refusals.
#
# usage: predict_test.sh ESPER
set -euo pipefail
esper=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
    echo "predict_test: $*" >&2
    exit 1
}

"$esper" grow --task tiny --envs 2 --policy wait --episode-steps 3 --rounds 1 --eval 0 --keep-best 1 --quiet --out run > /dev/null
# 300 images of 16 x 16 bytes as IDX
images=$'odd\tname\n.idx'
{
    printf '\0\0\x08\x03\0\0\x01\x2c\0\0\0\x10\0\0\0\x10'
    head -c 76800 < <(yes 'some bytes that are pixels')
} > "$images"
"$esper" predict run "$images" > stdout.tsv
"$esper" predict run/networks/1/network.safetensors "$images" --threads 1 --out out.tsv > nothing
cmp stdout.tsv out.tsv || fail "--out differs"
[[ ! -s nothing ]] || fail "--out prints"
[[ $(wc -l < out.tsv) -eq 301 ]] || fail "$(wc -l < out.tsv) lines"
[[ $(head -1 out.tsv) == $'input\tclass\tprobability' ]] || fail "$(head -1 out.tsv)"
grep -qP '^odd\\tname\\n.idx\[299\]\t[a-z]+\t[01]\.\d{6}$' out.tsv || fail "$(tail -1 out.tsv)"
"$esper" predict run "$images" --probabilities > all.tsv
awk -F'\t' 'NR > 1 { sum = 0; most = 0; for (i = 4; i <= NF; i++) { sum += $i; if ($i > most) most = $i }
    if (NF != 13 || sum < 0.9999 || sum > 1.0001 || most != $3) exit 1 }' all.tsv || fail "probabilities"
"$esper" predict run "$images" "$images" "$images" "$images" | head -1 > /dev/null || fail "a pipe that ends: $?"

# names that are not UTF-8 stay in their places
python3 - << 'PYTHON'
with open("names.csv", "wb") as file:
    file.write(b"a,b,label\n")
    for i in range(90):
        file.write(b"%d,%d," % (i % 3, i * 7 % 5) + (b"odd", b"caf\xe9", b"plain")[i % 3] + b"\n")
PYTHON
"$esper" fit --data names.csv --epochs 20 --quiet --out named > /dev/null || fail "names that are not UTF-8"
"$esper" predict named names.csv --out named.tsv || fail "prediction of names that are not UTF-8"
[[ $(cut -f 2 named.tsv | sort -u | tr '\n' ' ') == *$'caf\xef\xbf\xbd'* ]] || fail "$(head -5 named.tsv)"
python3 -c 'import json; assert len(json.load(open("named/networks/1/confusion.json"))["classes"]) == 3' || fail "confusions of such names"

refuse() {
    local expected=$1
    shift
    local code=0
    "$@" > refused.log 2>&1 || code=$?
    [[ $code -eq 2 ]] || fail "$*: exit code $code"
    grep -q -- "$expected" refused.log || fail "$*: $(cat refused.log)"
}
refuse "which network" "$esper" predict
refuse "predict what" "$esper" predict run
refuse "No such file" "$esper" predict run nothing.npy
refuse "holds no network" "$esper" predict . "$images"
echo '1,2' > rows.csv
refuse "takes images" "$esper" predict run rows.csv --out refused.tsv
[[ ! -e refused.tsv ]] || fail "a refused input leaves a file"
