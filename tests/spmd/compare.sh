#!/usr/bin/env bash
# compare.sh SIMULATED RANKS PROGRAM [LAUNCHER...]: the program must print the same as the simulated
# one. An argument "--" ends the launcher; the program's arguments follow.
set -euo pipefail
simulated=$1 ranks=$2 program=$3
shift 3
launcher=()
while [ $# != 0 ] && [ "$1" != -- ]; do
    launcher+=("$1")
    shift
done
[ $# = 0 ] || shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$simulated" --ranks "$ranks" >"$scratch/simulated"
test -s "$scratch/simulated"
# Without /sys MPICH's transport prints a message on stdout, and works.
UCX_LOG_LEVEL=fatal "${launcher[@]}" "$program" --ranks "$ranks" "$@" >"$scratch/real"
diff "$scratch/simulated" "$scratch/real"
echo "$(wc -l <"$scratch/real") lines are the same"
