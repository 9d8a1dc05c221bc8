#!/usr/bin/env bash
# `esper data`: tables, JSON, contact sheet, messages; and a path as --data of hosts.
#
# usage: data_command_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1

expect_line() { # pattern: a line of $out, words separated by single blanks
    grep -qx -- "$1" <<< "$(tr -s ' ' <<< "$out" | sed 's/^ //; s/ $//')" || fail "no line \"$1\" in: $out"
}

# --- usage ---
run 0 data --help
expect_part "help" "$out" "example: esper data photos/"
expect_part "help" "$out" "dataset-fashion-mnist"
run 2 data
expect_part "no data" "$err" "which data?"
run 2 data nothing
expect_part "unknown" "$err" 'no data set is called "nothing"'
run 2 data tiny --image-size 5000
expect_part "size" "$err" "--image-size: 5000 is outside 0..1024"

# --- rows ---
{
    echo "size,weight,kind"
    for i in $(seq 30); do
        echo "$i,7,$((i % 3))"
    done
} > table.csv
run 0 data table.csv
expect_part "rows" "$out" "table.csv: rows of 2 columns"
expect_line "30 samples of 3 classes: 24 for training, 3 for validation, 3 for the test"
expect_line "2 8 1 1"
expect_line "weight 7 7 7 1"
run 0 data table.csv --json
expect_part "json" "$out" '"column_names": ['
expect_part "json" "$out" '"kind": "rows"'
first=$out
run 0 data table.csv --json --seed 1
expect_text "the same seed" "$out" "$first"
run 0 data table.csv --json --seed 2
[[ $out != "$first" ]] || fail "another seed gives the same split"
run 0 data table.csv --validation-share 0.2 --test-share 0.3
expect_line "30 samples of 3 classes: 15 for training, 6 for validation, 9 for the test"
run 2 data table.csv --contact-sheet sheet.png
expect_part "sheet of rows" "$err" "a set of rows has no images"
run 2 data table.csv --label price
expect_part "label" "$err" 'no column is called "price"'
echo "31,,2" >> table.csv
run 2 data table.csv
expect_part "place" "$err" "table.csv: line 32, column 1 weight: the value is missing"

# --- images ---
run 0 data tiny
expect_part "images" "$out" "tiny: images of 16 x 16, grey"
expect_line "arrow 800 200 200"
run 0 data tiny --image-size 8
expect_part "fitted" "$out" "scaled and letter-boxed; as found: smallest 16 x 16"
run 0 data tiny --contact-sheet sheet.png
expect_part "sheet" "$out" "sheet.png: the first 12 training images of each class"
expect_line "1 arrow 800 200 200"
expect_text "sheet" "$(head -c 4 sheet.png | tail -c 3)" PNG
# a set of images cut from the sheet: 2 classes of 6 copies, one with a name that would colour a terminal
mkdir -p set/plain "$(printf 'set/red\033[31m')"
for i in 1 2 3 4 5 6; do
    cp sheet.png "set/plain/$i.png"
    cp sheet.png "$(printf 'set/red\033[31m')/$i.png"
done
run 0 data set
expect_part "set" "$out" "set: images of 64 x 64, grey"
[[ $out != *$'\033'* ]] || fail "a class name reached the terminal: $out"
run 0 hosts --task tiny --data set --batch 2 --envs 1 --rounds 1 --out run
expect_text "data of the run" "$(sed -n 's/^data = //p' run/config.ini)" "$folder/set"
head -c 100 sheet.png > set/plain/7.png
run 2 data set
expect_part "broken" "$err" "set/plain/7.png: damaged PNG file"
finish
