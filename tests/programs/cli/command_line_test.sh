#!/usr/bin/env bash
# The command line of `esper`: help texts, messages, exit codes, JSON output.
#
# usage: command_line_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$1
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"

# --- help ---
run 0 --help
expect_part "help" "$out" "usage: esper COMMAND [options]"
expect_part "help" "$out" "example: esper info"
expect_text "stderr of help" "$err" ""
help=$out
mapfile -t commands < <(sed -n '/^commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p' <<< "$help")
for command in "${commands[@]}"; do
    run 0 "$command" --help
    expect_part "help of $command" "$out" "usage: esper $command"
    expect_part "help of $command" "$out" "example: esper $command"
    expect_part "help of $command" "$out" "--help"
done
((${#commands[@]} >= 2)) || fail "only ${#commands[@]} commands in the help"
run 2
expect_text "stdout without a command" "$out" ""
expect_part "stderr without a command" "$err" "usage: esper COMMAND"
run 0 --version
expect_part "version" "$out" "esper 0."

# --- wrong usage ---
run 2 benhc
expect_text "unknown command" "$err" $'esper: unknown command "benhc"; did you mean "bench"?\ntry: esper --help'
run 2 frobnicate
expect_text "unknown command" "$err" $'esper: unknown command "frobnicate"\ntry: esper --help'
run 2 --hepl
expect_part "unknown option" "$err" 'unknown option "--hepl"'
run 2 bench --devise cpu
expect_text "unknown option" "$err" \
    $'esper bench: unknown option "--devise"; did you mean "--device"?\ntry: esper bench --help'
run 2 bench -x
expect_part "short option" "$err" 'unknown option "-x"; options are written --name'
run 2 bench --samples
expect_part "missing value" "$err" "--samples needs a value (N)"
run 2 bench --samples=many
expect_part "bad number" "$err" '--samples: "many" is not a whole number'
run 2 bench --samples 5.5
expect_part "bad number" "$err" '--samples: "5.5" is not a whole number'
run 2 bench --samples=4
expect_part "range" "$err" "--samples: 4 is outside 5..1000"
run 2 bench --json=yes
expect_part "flag with value" "$err" "--json takes no value"
run 2 bench kernles
expect_part "unknown suite" "$err" 'unknown suite "kernles"; did you mean "kernels"?'
run 2 bench --filter=nothing_like_this
expect_part "empty filter" "$err" 'no case contains "nothing_like_this"'
run 2 bench --device=gpu
expect_part "device" "$err" 'device "gpu" is not one of cpu, cuda, cuda:N'
run 2 info extra
expect_part "extra argument" "$err" 'unexpected argument "extra"'
ES_LOG=loud run 2 info
expect_part "ES_LOG" "$err" 'ES_LOG is "loud", not one of debug, info, warning, error'

# --- a full disk is a failure ---
if [[ -c /dev/full ]]; then
    "$esper" info > /dev/full 2> "$folder/err"
    code=$?
    [[ $code == 1 ]] || fail "info to a full disk: exit code $code, expected 1"
    expect_text "full disk" "$(cat "$folder/err")" "esper: cannot write the output: No space left on device"
    # less and more than stdout holds back
    for limit in 2 400; do
        "$esper" prove query "grandfather(X,Y)" --generated 400 --limit $limit --json > /dev/full 2> "$folder/err"
        code=$?
        [[ $code == 1 ]] || fail "JSON to a full disk: exit code $code, expected 1"
        expect_text "full disk" "$(cat "$folder/err")" \
            "esper: cannot write the result: No space left on device"
    done
fi

# --- results ---
run 0 info
expect_part "info" "$out" "commit"
expect_text "stderr of info" "$err" ""
run 0 info --json
cp "$folder/out" "$folder/info.json"
run 0 bench --list
expect_part "list" "$out" "kernels/conv2d_forward E=4 N=128 I=3 O=8 H=32"
run 0 bench --filter "cross_entropy_forward" --samples 5 --threads=1 --json
cp "$folder/out" "$folder/bench.json"
for field in suite case parameters metric unit value spread samples peer ratio commit device build date; do
    expect_part "bench record" "$out" "\"$field\":"
done
expect_part "bench record" "$out" '"samples": 5,'
run 0 bench kernels --filter matmul --samples 5
expect_part "pair" "$out" "x b stored transposed"
run 0 bench --filter cross_entropy_forward --samples 5 --threads 1 --json --baseline "$folder/bench.json"
expect_part "baseline" "$out" '"peer": "baseline"'
run 2 bench --filter cross_entropy_forward --samples 5 --baseline "$folder/info.json"
expect_part "baseline that is none" "$err" "info.json: not an array of benchmark records"
run 2 bench --filter cross_entropy_forward --samples 5 --baseline "$folder/missing.json"
expect_part "missing baseline" "$err" "missing.json"
if command -v python3 > /dev/null; then
    for file in info bench; do
        python3 -m json.tool "$folder/$file.json" > /dev/null || fail "$file.json is not JSON"
    done
else
    echo "no python3: JSON not parsed"
fi

finish
