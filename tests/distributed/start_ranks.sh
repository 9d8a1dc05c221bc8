#!/usr/bin/env bash
# Starts ranks for a test, more of them than cores where need be, also as root.
#
# usage: start_ranks.sh MPIRUN N PROGRAM ARGUMENT...
set -euo pipefail
mpirun=("$1" --oversubscribe --bind-to none -n "$2")
# Open MPI looks for a way to other machines, and fails without one
command -v ssh > /dev/null || mpirun+=(--mca plm isolated)
[[ $(id -u) -ne 0 ]] || mpirun+=(--allow-run-as-root)
shift 2
exec "${mpirun[@]}" "$@"
