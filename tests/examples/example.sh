#!/usr/bin/env bash
# example.sh PROGRAM RANKS FINDING [MPI_PROGRAM MPIEXEC [same]]: runs an example simulated and as MPI processes, and with its bug.
# same: the bug has the same finding as MPI processes.
set -euo pipefail
program=$1 ranks=$2 finding=$3 mpi_program=${4:-} mpiexec=${5:-} same=${6:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# found PATTERN FILE: the lines, or all that there is instead.
found() {
    grep -E "$1" "$2" || {
        echo "no \"$1\" in:"
        cat "$2"
        return 1
    }
}
"$program" --ranks "$ranks" >"$scratch/simulated"
test -s "$scratch/simulated"
if [ -n "$mpi_program" ] && [ -x "$mpi_program" ]; then
    # Where /sys is not mounted MPICH's transport says so on stdout, and works all the same.
    UCX_LOG_LEVEL=fatal "$mpiexec" -n "$ranks" "$mpi_program" >"$scratch/mpi"
    diff "$scratch/simulated" "$scratch/mpi"
    echo "the same as $ranks MPI processes"
    if [ -n "$same" ]; then
        if UCX_LOG_LEVEL=fatal timeout 60 "$mpiexec" -n "$ranks" "$mpi_program" --bug >"$scratch/mpi" 2>&1; then
            echo "the bug was not found between MPI processes"
            exit 1
        fi
        found "$finding" "$scratch/mpi" | head -n 1
    fi
fi
if "$program" --ranks "$ranks" --bug >"$scratch/bug" 2>&1; then
    echo "the bug was not found"
    exit 1
fi
found "$finding" "$scratch/bug"
