#!/usr/bin/env bash
# test_transcript.sh PYTHON TRANSCRIPT_PY: the transcript runner fails when it must.
set -u
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bad=0
# check PASS|FAIL TRANSCRIPT
check() {
    local wanted=$1
    printf '%b\n' "$2" >"$scratch/t.t"
    local got=FAIL
    if "$python" "$runner" "$scratch" /nowhere "$scratch/t.t" >/dev/null 2>&1; then got=PASS; fi
    if [ "$got" != "$wanted" ]; then
        echo "wanted $wanted, got $got: $2"
        bad=1
    fi
}
python=$1 runner=$2
check PASS '$ echo a; echo b\n> a\n> b'
check PASS '$ echo a1b; echo c; echo d\n> a...b\n> ...'
check FAIL '$ echo a\n> b'
check FAIL '$ echo a; echo b\n> a'
check FAIL '$ echo a\n> a\n> b'
check FAIL '$ exit 1'
check PASS '$ exit 1\n? 1'
check FAIL '$ echo a >&2'
check PASS '$ echo a >&2\n! a'
check FAIL 'nonsense'
check FAIL '# nothing'
exit $bad
