#!/usr/bin/env bash
# Twelve random networks as ONNX or PyTorch modules give our logits. Skipped where there is no Python with the packages.
#
# usage: export_python_test.sh onnx|torch MAKE_EXPORTS CHECK_EXPORTS PYTHON...    the first Python that has them
set -euo pipefail
kind=$1
make_exports=$2
check=$3
shift 3
modules=$kind
[[ $kind != onnx ]] || modules="onnx, onnxruntime, numpy"
for python in "$@"; do
    if [[ -x $python ]] && "$python" -c "import $modules" 2> /dev/null; then
        folder=$(mktemp -d)
        trap 'rm -rf "$folder"' EXIT
        ES_EXPORTS=$folder "$make_exports" > /dev/null
        PYTHONDONTWRITEBYTECODE=1 "$python" "$check" "$kind" "$folder"
        exit 0
    fi
done
echo "skipped: no Python with $modules ($*)"
exit 77
