#!/usr/bin/env python3
"""Real MPI programs, unmodified, under lockstep and under MPICH: their output and exit codes must be equal
except for times, and lockstep's findings are printed. Nothing of them is kept here.

    bench/mpi_programs.py DIR [--build build] [--only NAME] [--ranks 4,16] [--jobs 2]

DIR holds a folder or a git repository of each program under its name; what is not there is cloned
into it. Each is built twice, by lockstep-cc and by MPICH's mpicc, with the makefiles that it has.
"""
import argparse
import collections
import os
import re
import shutil
import subprocess
import sys

Program = collections.namedtuple("Program", "name url build program folder arguments ignore")
SECONDS_MAX = 1800
NUMBER = r"[0-9][0-9.eE+-]*"


def cubes(ranks):
    """The number of ranks that is a cube, as LULESH wants it."""
    return {4: 8, 16: 27}.get(ranks, 8)


def grid(ranks):
    side = {4: (2, 2, 1), 16: (4, 2, 2)}
    return side.get(ranks, (ranks, 1, 1))


def osu(name, *arguments):
    """One of the OSU micro-benchmarks, built as its makefiles would; its table is times alone."""
    kind, more = ("pt2pt", "") if "mbw" in name else ("collective", "mpi/collective/osu_coll.c")
    return Program("OSU/" + name, "https://github.com/forresti/osu-micro-benchmarks",
                   f"{{cc}} -O2 -w -DFIELD_WIDTH=18 -DFLOAT_PRECISION=2 -Impi/{kind} "
                   f"mpi/{kind}/osu_{name}.c {more} -lm -o {name}", name, ".",
                   lambda n: list(arguments), r"( +[0-9]+\.[0-9]{2})+$")


PROGRAMS = (
    Program("CoMD", "https://github.com/ECP-copa/CoMD",
            "cd src-mpi && cp Makefile.vanilla Makefile && make -s -j{jobs} CC={cc}",
            "bin/CoMD-mpi", ".",
            lambda n: "-i {} -j {} -k {} -x 12 -y 12 -z 12 -N 10 -n 5 -e".format(*grid(n)).split(),
            # When it ran, what built it, the time for each atom, and how long each part took.
            r"^.*[0-9]{2}:[0-9]{2}:[0-9]{2}.*$|^  (CC|compiler version): .*$|^  [A-Z]*FLAGS: .*$|"
            r" [0-9]+\.[0-9]+ +[0-9]+$|^.* [0-9]+\.[0-9]{4} .*$|^.*(us|s)/atom.*$|^.*atoms/us.*$"),
    Program("miniAMR", "https://github.com/Mantevo/miniAMR",
            "cd ref && make -s -j{jobs} CC={cc} LD={cc}", "ref/miniAMR.x", ".",
            lambda n: "--npx {} --npy {} --npz {} --num_tsteps 2 --num_vars 4".format(
                *grid(n)).split(),
            r"^.*([Tt]ime|sec|FLOP).*$|^Summary.*$|(: +|, )?[0-9]+\.[0-9]{6}( [0-9]+\.[0-9]{6})*$"),
    Program("hpcg", "https://github.com/hpcg-benchmark/hpcg",
            "mkdir -p b && cd b && ../configure Linux_MPI && "
            "make -s -j{jobs} CXX={cxx} LINKER={cxx}", "b/bin/xhpcg", "b/bin",
            lambda n: ["--nx=16", "--ny=16", "--nz=16", "--rt=1"], r"$^"),
    Program("LULESH", "https://github.com/LLNL/LULESH",
            "make -s -j{jobs} CXX='{cxx} -DUSE_MPI=1'", "lulesh2.0", ".",
            lambda n: ["-s", "6", "-i", "10"], r"^.*([Tt]ime|FOM|Grind).*$"),
    Program("IMB", "https://github.com/intel/mpi-benchmarks",
            "cd src_c && make -s TARGET=MPI1 CC={cc}", "src_c/IMB-MPI1", ".",
            lambda n: ["-npmin", str(n), "-msglog", "10", "-iter", "5", "Allreduce", "Bcast",
                       "Sendrecv", "Alltoall"],
            r" {3,}|^# (Date|Calling|MPI|\\.|/).*$|( +" + NUMBER + r"){4,}$|^ *[0-9]+ .*$|"
            r"^# .*IMB-MPI1.*$"),
    osu("mbw_mr", "-i", "2", "-x", "1"),
    osu("allreduce", "-m", "4096", "-i", "20", "-x", "2"),
    osu("alltoall", "-m", "1024", "-i", "20", "-x", "2"),
    osu("reduce_scatter", "-m", "4096", "-i", "20", "-x", "2"),
    osu("igather", "-m", "1024", "-i", "10", "-x", "2"),
)


def fetch(program, folder):
    source = os.path.join(folder, program.name.split("/", maxsplit=1)[0])
    if not os.path.isdir(source):
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", program.url, source],
                       check=True)
    return source


def build(program, source, into, compilers, jobs):
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(source, into, symlinks=True)
    command = program.build.format(cc=compilers[0], cxx=compilers[1], jobs=jobs)
    done = subprocess.run(command, shell=True, cwd=into, capture_output=True, text=True,
                          errors="replace")
    if done.returncode != 0:
        sys.exit(f"{program.name}: {command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return os.path.join(into, program.program)


def row(program, ranks, folder, here, real, lockstep):
    command = [lockstep, "mpi", "-n", str(ranks), "--deadline", "600", "--compare", "mpich",
               "--real", real, "--ignore", program.ignore, here, "--", *program.arguments(ranks)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace",
                          timeout=SECONDS_MAX)
    text = done.stdout + done.stderr
    times = re.findall(r"sim(?: against mpi)?, ([0-9.]+) s", text)
    findings = sorted(set(re.findall(r"^  ([a-z0-9_]+\.[a-z0-9_]+), rank", text, re.M)))
    same = "as under MPICH" in text
    lines = re.search(r"the same (\d+) lines", text)
    print(f"{program.name:18} {ranks:5}  {'same' if same else 'DIFFERS':8} "
          f"{lines.group(1) if lines else '-':>6} {times[0] if times else '-':>9} "
          f"{times[1] if len(times) > 1 else '-':>9}  {', '.join(findings) or 'none'}", flush=True)
    return text if not same or findings else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", default="")
    parser.add_argument("--ranks", default="4,16")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--built", action="store_true", help="take what the last run has built")
    options = parser.parse_args()
    folder, home = os.path.abspath(options.folder), os.path.abspath(options.build)
    own = [os.path.join(home, name) for name in ("lockstep-cc", "lockstep-c++")]
    told = []
    print(f"{'program':18} {'ranks':>5}  {'printed':8} {'lines':>6} {'here, s':>9} {'MPICH, s':>9}"
          "  findings")
    for program in PROGRAMS:
        if options.only not in program.name:
            continue
        source = fetch(program, folder)
        made = []
        for where, compilers in (("lockstep", own), ("mpich", ["mpicc.mpich", "mpicxx.mpich"])):
            into = os.path.join(folder, "built", where, program.name)
            made.append(os.path.join(into, program.program) if options.built else
                        build(program, source, into, compilers, options.jobs))
        for ranks in options.ranks.split(","):
            ranks = cubes(int(ranks)) if program.name == "LULESH" else int(ranks)
            said = row(program, ranks, os.path.join(folder, "built", "lockstep", program.name,
                                                    program.folder), *made,
                       os.path.join(home, "lockstep"))
            told.append(said)
    print("\n".join(t for t in told if t))
    return 0


if __name__ == "__main__":
    sys.exit(main())
