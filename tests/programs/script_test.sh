#!/usr/bin/env bash
# Helpers of the scripts beside this one; they set `esper` and source it. A folder of the script's
# own, checks that print both values and go on, and an end that prints the number of failures.
# shellcheck disable=SC2034,SC2154 # out and err are for the scripts, esper is theirs
unset ES_LOG ES_FILE_FAULT
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
n_failed=0

fail() {
    echo "FAIL: $*"
    n_failed=$((n_failed + 1))
}

# run EXPECTED_CODE ARGUMENTS...: leaves the output in $out and $err
run() {
    local expected=$1 code
    shift
    "$esper" "$@" > "$folder/out" 2> "$folder/err"
    code=$?
    out=$(cat "$folder/out")
    err=$(cat "$folder/err")
    [[ $code == "$expected" ]] || fail "esper $*: exit code $code, expected $expected; $err"
}

expect_text() { # what actual expected
    [[ $2 == "$3" ]] || fail "$1 is \"$2\", expected \"$3\""
}

expect_part() { # what actual part
    [[ $2 == *"$3"* ]] || fail "$1 is \"$2\", which does not contain \"$3\""
}

ask() { # RUN SQL: the first cell of the answer
    "$esper" query "$1" "$2" --csv | tr -d '\r' | sed -n 2p
}

ask_percent() { # RUN SQL: that cell with two digits, rounded as the program does: SQLite's printf goes by decimals
    ask "$1" "$2" | awk '{ printf "%.2f %%", $1 }'
}

expect_reasons() { # RUN: the probabilities of each decision of a learned policy are whole, and agree with what was chosen
    local head
    expect_text "$1: confidence against the operation's probability" "$(ask "$1" "select count(*) from decisions
        where op_probabilities is null or abs(json_extract(op_probabilities, '\$.' || op) - confidence) > 1e-5")" 0
    expect_text "$1: forced with a choice" "$(ask "$1" "select count(*) from decisions
        where is_forced <> (select count(*) = 1 from json_each(op_probabilities))")" 0
    for head in op slot blueprint style alpha_speed alpha_curve; do
        expect_text "$1: a $head without probability" "$(ask "$1" "select count(*) from decisions where $head is not null
            and json_extract(${head}_probabilities, '\$.' || $head) is null")" 0
        expect_text "$1: probabilities of ${head}s that were not drawn" "$(ask "$1" "select count(*) from decisions, json_each(${head}_probabilities) p
            where $head is null and p.value is not null")" 0
    done
    for head in op slot blueprint style tempo alpha_target alpha_speed alpha_curve; do
        expect_text "$1: sums of $head" "$(ask "$1" "select count(*) from decisions where $head is not null
            and abs((select sum(value) from json_each(${head}_probabilities)) - 1) > 1e-3")" 0
        expect_text "$1: heads that were not read, $head" "$(ask "$1" "select count(*) from decisions
            where ($head is null) <> (${head}_probabilities is null) and '$head' <> 'slot'")" 0
    done
}

panel_text() { # REPORT PANEL: the panel's text, without tags, one line
    sed -n "/id=\"panel-$2\"/,/<\/section>/p" "$1" | sed 's/<[^>]*>/ /g' | tr -s ' \n' ' '
}

# write_npy PATH SHAPE EXPRESSION: an array of bytes; the expression gives element i, counted through
write_npy() {
    python3 - "$@" << 'PYTHON'
import math, struct, sys
path, shape, expression = sys.argv[1], tuple(int(n) for n in sys.argv[2].split(",")), sys.argv[3]
header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode()
header += b" " * (-(len(header) + 11) % 64) + b"\n"
values = bytes(eval(expression, {"i": i}) for i in range(math.prod(shape)))
with open(path, "wb") as file:
    file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values)
PYTHON
}

finish() {
    ((n_failed == 0)) && echo "all as expected"
    exit $((n_failed > 0))
}
