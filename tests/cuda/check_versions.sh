#!/bin/sh
# usage: check_versions.sh LOCKSTEP STUB SCENARIO. Rank processes that load different NCCL
# libraries: one line names the ranks and both versions, with exit code 3. Equal versions run.
set -eu
lockstep=$1 scenario=$3
export LOCKSTEP_NCCL_LIBRARY=$2
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# expect ODD LINE: the rank with another version, and the expected line.
expect() {
    got=0
    STUB_NCCL_ODD_RANK=$1 "$lockstep" compare "$scenario" --real nccl --processes >"$out" 2>&1 || got=$?
    if [ "$got" != 3 ] || ! tr -s ' \n' ' ' <"$out" | grep -qE "error: the nccl run failed: $2"; then
        cat "$out"
        echo "exit $got, wanted 3 and: $2"
        exit 1
    fi
}
expect 2 'rank [012]: rank 2 has NCCL 2\.29\.7, rank 0 has 2\.28\.9: all need the same version'
expect 0 'rank [012]: rank 1 has NCCL 2\.28\.9, rank 0 has 2\.29\.7: all need the same version'
expect none '.*(driver|GPU|NCCL)'
if grep -q 'same version' "$out"; then
    cat "$out"
    exit 1
fi
echo "different versions of NCCL are named, equal ones are not"
