#!/usr/bin/env bash
# consumer.sh PREFIX CONSUMER CMAKE CC CXX LIBDIR GENERATOR MPIEXEC BACKEND...: builds and runs
# projects against the installed package, by find_package and by pkg-config, in C and C++, on every
# available backend; and runs the installed program.
set -euo pipefail
prefix=$1 consumer=$2 cmake=$3 cc=$4 cxx=$5 libdir=$6 generator=$7 mpiexec=$8
shift 8
backends=("$@")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

quietly() {
    "$@" >"$scratch/log" 2>&1 || {
        cat "$scratch/log"
        exit 1
    }
}

# both_agree COMMAND...: two MPI processes, each of which prints it.
both_agree() {
    "$mpiexec" -n 2 "$@" >"$scratch/said"
    sort "$scratch/said" | diff - <(printf 'rank %d of 2 agrees\n' 0 1)
}

has() {
    [[ " ${backends[*]} " == *" $1 "* ]]
}

# Only the installed examples, so that headers come from the installed package. A program's own
# headers of the same names come first, and must not be taken for lockstep's.
mkdir -p "$scratch/sources"
cp -r "$prefix/share/doc/lockstep/examples" "$consumer" "$scratch/sources/"
consumer=$scratch/sources/consumer
(cd "$prefix/include/lockstep" && find . -type d) | (cd "$consumer" && xargs mkdir -p)
(cd "$prefix/include/lockstep" && find . -name '*.h') | while read -r header; do
    echo "#error \"the program's own $header\"" >"$consumer/$header"
done
built=$scratch/by_cmake
list=$(IFS=';' && echo "${backends[*]}")
quietly "$cmake" -G "$generator" -S "$consumer" -B "$built" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" -DSOURCES="$scratch/sources" \
    -DBACKENDS="$list" -DVERSION="$(cat "$prefix/share/lockstep/VERSION")"
quietly "$cmake" --build "$built"

# try PROGRAM_FOLDER: runs the programs of both ways of building.
try() {
    local suffix
    for suffix in "" _cxx; do
        mkdir "$scratch/kept$suffix"
        "$1/every_header$suffix" "$scratch/kept$suffix"
        rm -r "$scratch/kept$suffix"
        "$1/spmd$suffix" >"$scratch/said"
        diff "$scratch/said" <(echo collective.op_mismatch)
        if has mpi; then both_agree "$1/spmd_mpi$suffix"; fi
    done
}
try "$built"

# The examples print the same on every backend, and their bugs are found.
for example in data_parallel tensor_parallel_mlp pipeline moe local_tensor; do
    "$built/${example}_sim" --ranks 2 >"$scratch/simulated"
    if "$built/${example}_sim" --ranks 3 --bug >"$scratch/log" 2>&1; then
        echo "$example --bug passes"
        exit 1
    fi
    if has mpi; then
        "$mpiexec" -n 2 "$built/${example}_mpi" >"$scratch/real"
        diff <(sort "$scratch/simulated") <(sort "$scratch/real")
    fi
done
if has nccl; then  # 3: there is no GPU
    code=0
    "$built/data_parallel_nccl" --ranks 1 >"$scratch/log" 2>&1 || code=$?
    [ $code = 0 ] || [ $code = 3 ]
fi

export PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig LD_LIBRARY_PATH=$prefix/$libdir
flags=$(pkg-config --cflags --libs lockstep)
mkdir "$scratch/by_pkg_config"
cp "$consumer/spmd.c" "$scratch/spmd.cc"
cp "$consumer/every_header.c" "$scratch/every_header.cc"
build() {  # build NAME FLAGS: in both languages
    # shellcheck disable=SC2086
    quietly "$cc" -std=c17 "-I$consumer" "$consumer/${1%_mpi}.c" $2 -lm -o "$scratch/by_pkg_config/$1"
    # shellcheck disable=SC2086
    quietly "$cxx" -std=c++17 "-I$consumer" "$scratch/${1%_mpi}.cc" $2 -o "$scratch/by_pkg_config/$1_cxx"
}
build spmd "$flags"
build every_header "$flags"
if has mpi; then build spmd_mpi "-DLOCKSTEP_WITH_MPI=1 $(pkg-config --cflags --libs lockstep-mpi)"; fi
try "$scratch/by_pkg_config"
static=$(pkg-config --static --cflags --libs lockstep)
mkdir "$scratch/by_archive"
quietly "$cc" -std=c17 "-I$consumer" "$consumer/spmd.c" ${static/-llockstep/-l:liblockstep.a} \
    -o "$scratch/by_archive/spmd"
"$scratch/by_archive/spmd" >"$scratch/said"
diff "$scratch/said" <(echo collective.op_mismatch)
unset LD_LIBRARY_PATH

if [ -x "$prefix/bin/lockstep" ]; then
    "$prefix/bin/lockstep" --version
    "$prefix/bin/lockstep" doctor --json - | grep -q '"command": "doctor"'
    test -s "$prefix/share/man/man1/lockstep.1"
    # gdb finds the extension by the names of the program and of the library.
    test -s "$prefix/share/gdb/auto-load$prefix/bin/lockstep-gdb.py"
    test -s "$prefix/share/lockstep/gdb/lockstep_gdb/__init__.py"
    grep -q "\"\$schema\": " "$prefix/share/doc/lockstep/docs/scenario.schema.json"
fi
