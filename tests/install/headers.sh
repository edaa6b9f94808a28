#!/usr/bin/env bash
# headers.sh FOLDER CC CXX HEADER...: the installed headers are the public ones, and each compiles
# alone, as C and as C++, with only the others beside it.
set -u
cd "$1" || exit 1
cc=$2 cxx=$3
shift 3
if [ $# = 0 ]; then
    echo "no headers were given"
    exit 1
fi
bad=0
if ! diff <(printf '%s\n' "$@" | sort) <(find . -name '*.h' -printf '%P\n' | sort); then
    echo "installed are others (>) than the public headers (<)"
    bad=1
fi
flags=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only -I..)
for header in "$@"; do
    # Twice: the guard has to hold.
    unit=$(printf '#include <lockstep/%s>\n#include <lockstep/%s>\nint unit_has_a_declaration;\n' "$header" "$header")
    if ! "$cc" -std=c17 "${flags[@]}" -x c - <<<"$unit"; then
        echo "does not compile alone as C: $header"
        bad=1
    fi
    if ! "$cxx" -std=c++17 "${flags[@]}" -x c++ - <<<"$unit"; then
        echo "does not compile alone as C++: $header"
        bad=1
    fi
done
echo "$# headers"
exit $bad
