#!/usr/bin/env bash
# The closure of random programs with negation is what clingo (PyPI) finds. Skipped without it, unless ES_CI is set.
#
# usage: prove_clingo_test.sh ESPER PYTHON
set -euo pipefail
if ! { [[ -x $2 ]] && "$2" -c "import clingo" 2> /dev/null; }; then
    echo "skipped: $2 has no clingo; tools/make_python_environment installs it"
    [[ -z ${ES_CI:-} ]] || exit 1
    exit 77
fi
PYTHONDONTWRITEBYTECODE=1 "$2" "$(dirname "$0")/compare_clingo.py" "$1"
