"""wheel.py SOURCE CMAKE FOLDER: the targets that pyproject.toml names build every file that the wheel installs. FOLDER is for a build tree,
which is configured and not built.
"""
import os
import re
import shutil
import subprocess
import sys


def installed(folder):
    """The files of the component `wheel` in the install scripts."""
    for place, _, names in os.walk(folder):
        if "cmake_install.cmake" in names:
            with open(os.path.join(place, "cmake_install.cmake"), encoding="utf-8") as stream:
                parts = stream.read().split("if(CMAKE_INSTALL_COMPONENT STREQUAL ")
            for part in parts:
                if part.startswith('"wheel"'):
                    for files in re.findall(r'file\(INSTALL [^)]*? FILES(?:_MATCHING)?((?:\s+"[^"]*")+)', part):
                        yield from re.findall(r'"([^"]*)"', files)


def main():
    source, cmake, folder = sys.argv[1:]
    shutil.rmtree(folder, ignore_errors=True)
    options = ["SKBUILD=ON", "LOCKSTEP_TESTS=OFF", "LOCKSTEP_MPI=OFF", "LOCKSTEP_CUDA=OFF", "LOCKSTEP_NCCL=OFF"]
    subprocess.run([cmake, "-S", source, "-B", folder, "-G", "Ninja"] + ["-D" + option for option in options],
                   check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(source, "pyproject.toml"), encoding="utf-8") as stream:
        targets = re.findall(r'"(\w+)"', re.search(r"build\.targets = \[(.*?)\]", stream.read(), re.S).group(1))
    commands = set(subprocess.run(["ninja", "-C", folder, "-t", "commands"] + targets, check=True, capture_output=True,
                                  text=True).stdout.split())
    files = sorted(set(installed(folder)))
    missing = [path for path in files if path.startswith(folder + "/") and not os.path.exists(path)
               and not {path, os.path.relpath(path, folder)} & commands]
    print(*(f"no target of pyproject.toml builds {path}" for path in missing), sep="\n")
    print(f"{len(files)} files, {len(missing)} not built")
    shutil.rmtree(folder)
    sys.exit(1 if missing or not files else 0)


if __name__ == "__main__":
    main()
