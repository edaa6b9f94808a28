"""portable.py GLIBC FILE...: programs and libraries that need no function newer than that version of glibc. Those linked for an older version than
the machine's name every library that they need.
"""
import re
import subprocess
import sys

FOR_HEADERS = {"stat", "lstat", "fstat", "fstatat", "mknod", "mknodat"}  # libc_nonshared.a has them in older versions
VERSION = re.compile(r"@+GLIBC_([0-9.]+)$")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def number(version):
    return [int(part) for part in version.split(".")]


def symbols(option, path):
    """Dynamic symbols as (name, version or None)."""
    for line in run("nm", "-D", option, path).splitlines():
        name = line.split()[-1]
        found = VERSION.search(name)
        yield (name[:found.start()], number(found.group(1))) if found else (name, None)


def system():
    """Each function of the C library with its oldest version."""
    oldest = {}
    for library in ("libc.so.6", "libm.so.6"):
        for name, version in symbols("--defined-only", run("gcc", "-print-file-name=" + library).strip()):
            if version is not None:
                oldest[name] = min(version, oldest.get(name, version))
    return oldest


def complaints(path, least, oldest):
    for name, version in symbols("--undefined-only", path):
        if version is None and name in oldest:
            yield f"the library of {name} is not linked"
        elif version is not None and version > least and name not in FOR_HEADERS and oldest[name] > least:
            yield f"{name} is newer: glibc {'.'.join(map(str, oldest[name]))}"


def main():
    glibc, *files = sys.argv[1:]
    oldest, bad = system(), 0
    for file in files:
        for text in complaints(file, number(glibc), oldest):
            bad += 1
            print(f"{file}: {text}")
    print(f"{len(files)} files, {bad} complaints")
    sys.exit(1 if bad or not files else 0)


if __name__ == "__main__":
    main()
