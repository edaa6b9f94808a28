#!/usr/bin/env bash
# compare.sh SIMULATED RANKS PROGRAM [LAUNCHER...]: the program must print what the simulated one
# does. An argument "--" ends the launcher; what follows are the program's arguments.
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
# Where /sys is not mounted MPICH's transport says so on stdout, and works all the same.
UCX_LOG_LEVEL=fatal "${launcher[@]}" "$program" --ranks "$ranks" "$@" >"$scratch/real"
diff "$scratch/simulated" "$scratch/real"
echo "$(wc -l <"$scratch/real") lines are the same"
