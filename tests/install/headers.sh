#!/usr/bin/env bash
# headers.sh SOURCE CC CXX HEADER...: every public header compiles alone, as C and as C++.
set -u
cd "$1" || exit 1
cc=$2 cxx=$3
shift 3
if [ $# = 0 ]; then
    echo "no headers were given"
    exit 1
fi
bad=0
flags=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only -I. -D_POSIX_C_SOURCE=200809L)
for header in "$@"; do
    # Twice: the guard has to hold.
    unit=$(printf '#include "%s"\n#include "%s"\nint unit_has_a_declaration;\n' "$header" "$header")
    if ! "$cc" -std=c17 "${flags[@]}" -x c - <<<"$unit"; then
        echo "does not compile alone as C: $header"
        bad=1
    fi
    if [ -x "$cxx" ] && ! "$cxx" -std=c++17 "${flags[@]}" -x c++ - <<<"$unit"; then
        echo "does not compile alone as C++: $header"
        bad=1
    fi
done
echo "$# headers"
exit $bad
