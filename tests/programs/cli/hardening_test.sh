#!/usr/bin/env bash
# The program as it was linked: position-independent, relocations read-only, no executable stack, canaries, checked calls.
#
# usage: hardening_test.sh PATH_TO_ESPER IS_FORTIFIED
#   IS_FORTIFIED   1 where _FORTIFY_SOURCE is asked for (optimised builds without sanitizers)
set -uo pipefail
esper=$(realpath "$1")
is_fortified=$2
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
if ! command -v readelf > /dev/null; then
    echo "no readelf here"
    exit 77
fi

headers=$(readelf -hW "$esper")
[[ $headers =~ Type:\ +DYN ]] || fail "not position-independent: $headers"
dynamic=$(readelf -dW "$esper")
flags=$(grep -F '(FLAGS_1)' <<< "$dynamic")
[[ $flags == *PIE* ]] || fail "linked without -pie: $flags"
[[ $dynamic != *TEXTREL* ]] || fail "the code itself is relocated"
segments=$(readelf -lW "$esper")
expect_part "segments" "$segments" GNU_RELRO
stack=$(grep -F GNU_STACK <<< "$segments")
[[ $stack == *" RW "* && $stack != *E* ]] || fail "the stack is executable: $stack"
! grep -qE '^ +LOAD .* RWE ' <<< "$segments" || fail "memory for writing and execution: $segments"

# what the program takes from the C library, and so does the library where it is a shared one
files=("$esper")
mapfile -t -O 1 files < <(ldd "$esper" | awk '$1 ~ /^libesper/ { print $3 }')
called=" $(readelf --dyn-syms -W "${files[@]}" | awk '$7 == "UND" { sub(/@.*/, "", $8); printf "%s ", $8 }')"
wanted=(__stack_chk_fail)
((is_fortified)) && wanted+=(__snprintf_chk __printf_chk __memcpy_chk)
for name in "${wanted[@]}"; do
    [[ $called == *" $name "* ]] || fail "$name is never called"
done
for file in "${files[@]}"; do
    [[ $(readelf -dW "$file" | grep -F '(FLAGS_1)') == *NOW* ]] || fail "$file is bound lazily"
done

finish
