#!/usr/bin/env bash
# consumer.sh BUILD CONSUMER CMAKE CC LIBDIR GENERATOR: installs into a scratch prefix, then builds
# and runs a project against it, once by find_package and once by pkg-config, and the installed program.
set -euo pipefail
build=$1 consumer=$2 cmake=$3 cc=$4 libdir=$5 generator=$6
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix
"$cmake" --install "$build" --prefix "$prefix" >/dev/null

# Nothing but the examples, so that headers come from the installed package.
mkdir "$scratch/sources"
cp -r "$consumer/../../../examples" "$scratch/sources/"
"$cmake" -G "$generator" -S "$consumer" -B "$scratch/by_cmake" \
    -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$cc" -DSOURCES="$scratch/sources" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
"$cmake" --build "$scratch/by_cmake" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
"$scratch/by_cmake/consumer"
"$scratch/by_cmake/data_parallel" --ranks 3
if "$scratch/by_cmake/data_parallel" --bug 2>"$scratch/log"; then exit 1; fi
grep '^replica.diverged at ' "$scratch/log"

export PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
flags=$(pkg-config --cflags --libs lockstep)
# shellcheck disable=SC2086
"$cc" -std=c17 "$consumer/consumer.c" $flags -o "$scratch/by_pkg_config"
LD_LIBRARY_PATH=$prefix/$libdir "$scratch/by_pkg_config"
# An example, with its bug and without.
sources=$scratch/sources
# shellcheck disable=SC2086
"$cc" -std=c17 -I"$sources" "$sources/examples/moe.c" "$sources/examples/launch.c" $flags -o "$scratch/moe"
export LD_LIBRARY_PATH=$prefix/$libdir
"$scratch/moe" --ranks 3
if "$scratch/moe" --bug 2>"$scratch/log"; then exit 1; fi
grep '^collective.split_mismatch at ' "$scratch/log"
unset LD_LIBRARY_PATH

if [ -x "$prefix/bin/lockstep" ]; then
    "$prefix/bin/lockstep" --version
    "$prefix/bin/lockstep" doctor --json - | grep -q '"command": "doctor"'
    test -s "$prefix/share/man/man1/lockstep.1"
    # gdb finds the extension by the names of the program and of the library.
    test -s "$prefix/share/gdb/auto-load$prefix/bin/lockstep-gdb.py"
    test -s "$prefix/share/lockstep/gdb/lockstep_gdb/__init__.py"
    grep -q "\"\$schema\": " "$prefix/share/lockstep/scenario.schema.json"
    bash -n "$prefix/share/bash-completion/completions/lockstep"
fi
