#!/usr/bin/env bash
# Rows of numbers from a CSV file: esper hosts trains on them to a sensible accuracy, with the same bytes on any number
# of threads; esper grow grows networks on them, which predict and export take.
#
# usage: rows_test.sh ESPER
set -euo pipefail
esper=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
    echo "rows_test: $*" >&2
    exit 1
}

# three kinds of flowers, 100 each: means and deviations about those of iris
awk 'BEGIN {
    srand(7)
    print "sepal_length,sepal_width,petal_length,petal_width,kind"
    split("setosa versicolor virginica", names, " ")
    split("5.0 3.4 1.5 0.25 5.9 2.8 4.3 1.3 6.6 3.0 5.5 2.0", mean, " ")
    split("0.35 0.38 0.17 0.1 0.5 0.3 0.47 0.2 0.6 0.3 0.55 0.27", deviation, " ")
    for (i = 0; i < 300; i++) {
        k = i % 3
        for (c = 1; c <= 4; c++) {
            normal = sqrt(-2 * log(1 - rand())) * cos(6.2831853 * rand())
            printf "%.3f,", mean[4 * k + c] + normal * deviation[4 * k + c]
        }
        print names[k + 1]
    }
}' > flowers.csv
printf '[host]\nkind = dense\nlayers = 16, 8\n' > two.ini
printf '[host]\nkind = dense\n' > linear.ini

for task in dense two.ini linear.ini; do
    "$esper" hosts --task "$task" --data flowers.csv --envs 3 --rounds 40 --quiet --out "hosts-$task" > hosts.txt
    awk '$1 == "mean" { exit !($3 >= 85) }' hosts.txt || fail "$task: $(cat hosts.txt)"
done
for threads in 1 2; do
    "$esper" hosts --task two.ini --data flowers.csv --envs 2 --rounds 5 --threads $threads --quiet \
        --out "threads-$threads" > "threads-$threads.txt"
done
cmp threads-1.txt threads-2.txt || fail "threads change a result"

printf '1 * germinate r0c0 mlp_small style=sigmoid_add\n20 * germinate r0c1 mlp style=gated_gate\n' > schedule.txt
"$esper" grow --task two.ini --data flowers.csv --envs 3 --rounds 1 --policy script:schedule.txt --eval 0 --keep-best 1 \
    --quiet --out grown > /dev/null
for part in '"kind": "dense"' '"blueprint": "mlp_small"' '"blueprint": "mlp"'; do
    grep -q "$part" grown/networks/1/network.json || fail "no $part in $(cat grown/networks/1/network.json)"
done
"$esper" predict grown flowers.csv --out flowers.tsv 2> /dev/null
paste -d, <(tail -n +2 flowers.csv | cut -d, -f5) <(tail -n +2 flowers.tsv | cut -f2) |
    awk -F, '$1 == $2 { n++ } END { exit !(n >= 270) }' || fail "predictions are wrong: $(head flowers.tsv)"
"$esper" export grown --onnx flowers.onnx --c flowers-c --torch flowers.py 2> export.log || fail "$(cat export.log)"
[[ -s flowers.onnx && -s flowers-c/network.c && -s flowers.py ]] || fail "an export is empty"

refuse() {
    local expected=$1 code=0
    shift
    "$@" > refused.log 2>&1 || code=$?
    [[ $code -eq 2 ]] || fail "$*: exit code $code"
    grep -q -- "$expected" refused.log || fail "$*: $(cat refused.log)"
}
refuse "choose --task dense" "$esper" hosts --task tiny --data flowers.csv --out refused
refuse "it takes rows of numbers" "$esper" hosts --task dense --data tiny --out refused
refuse "names no data set" "$esper" hosts --task dense --out refused
printf '1 * germinate r0c0 conv_light\n' > images.txt
refuse "images.txt:1" "$esper" grow --task two.ini --data flowers.csv --policy script:images.txt --out refused
refuse "nothing can grow in it" "$esper" grow --task linear.ini --data flowers.csv --out refused
