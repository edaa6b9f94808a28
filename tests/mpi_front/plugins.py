"""Libraries that a program opens: each rank has a copy, bound to the rank's own program.
plugins.py BUILD SOURCES"""
import os
import subprocess
import sys
import tempfile


def main():
    build, sources = map(os.path.abspath, sys.argv[1:])
    cc, cflags = os.environ.get("CC", "cc"), ["-shared", "-fPIC"]
    with tempfile.TemporaryDirectory() as folder:
        inside = os.path.join(folder, "inside")
        os.mkdir(inside)

        def source(name):
            return os.path.join(sources, f"{name}.c")
        subprocess.run([cc, *cflags, source("needed"), "-o", f"{inside}/libneeded.so"], check=True)
        program = os.path.join(folder, "program")
        subprocess.run([os.path.join(build, "lockstep-cc"), source("program"), "-o", program],
                       check=True)
        for tag in ("--disable-new-dtags", "--enable-new-dtags"):
            plugin = os.path.join(folder, tag[2:] + ".so")
            subprocess.run([cc, *cflags, source("plugin"), "-L", inside, "-lneeded",
                            f"-Wl,-rpath,$ORIGIN/inside,{tag}", "-o", plugin], check=True)
            done = subprocess.run([os.path.join(build, "lockstep"), "mpi", "-n", "3", program, "--",
                                   plugin], capture_output=True, text=True)
            assert done.returncode == 0, done
            for rank in range(3):
                own = 1 + rank
                line = (f"rank {rank}: {1000 + own} {2010 + own} {3110 + own}, "
                        f"program {110 + own}, found 1, none 1\n")
                assert line in done.stdout, (line, done.stdout, done.stderr)


main()
