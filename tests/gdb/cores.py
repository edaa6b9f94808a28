"""--core DIR of mpi, spmd, run and exec: cores.py BUILD SOURCE [NCCL]

A core file has what a debugger needs: stacks, globals, memory in use, also where it is zero; at most 20 MB; and a run that cannot write
it, or is killed, leaves nothing. NCCL: folder of the stand-in for the libraries of GPUs, for exec. Exit code 77: there is no gdb.
"""
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIMIT = 20_000_000
SMALL = 6_000_000  # of a program with four ranks and little memory

LARGE = """
#define _GNU_SOURCE
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
double *zeros, *data;
static int table[100000];
static int deep(int n) {
    volatile char pad[4096];
    memset((void *)pad, n, sizeof pad);
    return n == 0 ? MPI_Barrier(MPI_COMM_WORLD) : deep(n - 1) + pad[5];
}
int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    size_t count = (size_t)atol(argv[1]);
    zeros = calloc(1 << 20, 8);
    data = malloc(count * 8);
    for (size_t i = 0; i < count; i++) data[i] = rank + i * 0.5;
    for (int i = 0; i < 100000; i++) table[i] = i + rank;
    double *base;
    MPI_Win window;
    MPI_Win_allocate(800, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    base[7] = 10 * rank;
    while (argc > 2 && argv[2][0] == 'w') usleep(1000);
    if (argc > 2 && rank == 1 && argv[2][0] == 'h') {
        char *small = malloc(3000);
        syscall(SYS_getrandom, small, 5000, 0);  // which lockstep does not see
        for (int i = 0; i < 100; i++) free(malloc(9000 + 500 * i));
    }
    if (argc > 2 && rank == 1) *(volatile int *)0 = 1;
    if (rank == 1) MPI_Bcast(data, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD); else deep(200);
    MPI_Finalize();
    return 0;
}
"""


def need(ok, what):
    if not ok:
        print(what)
        sys.exit(1)


class Test:
    def __init__(self, build, folder):
        self.build, self.folder, self.lockstep, self.made = build, folder, os.path.join(build, "lockstep"), 0
        self.environment = {**os.environ, "LC_ALL": "C.UTF-8", "HOME": folder}

    def program(self, name, text):
        source = os.path.join(self.folder, name + ".c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run([os.path.join(self.build, "lockstep-cc"), "-g", "-O0", source, "-o", os.path.join(self.folder, name)], check=True)
        return os.path.join(self.folder, name)

    def new(self):
        self.made += 1
        return os.path.join(self.folder, f"kept{self.made}")

    def run(self, command, *words, code=1, **more):
        kept = self.new()
        done = subprocess.run([self.lockstep, command, "--core", kept, *words], cwd=self.folder, env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **more)
        need(done.returncode == code, f"exit code {done.returncode}:\n{done.stdout}")
        need(not [name for name in os.listdir(self.folder) if ".part-" in name], os.listdir(self.folder))
        return kept, done.stdout

    def look(self, kept, commands, expected):
        """Commands of gdb, and parts of what it prints."""
        words = [word for command in commands for word in ("-ex", command)]
        done = subprocess.run([self.lockstep, "gdb", "-nx", "-batch", "--core", kept, *words], env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        for part in expected:
            need(part in done.stdout, f"{part} is missing:\n{done.stdout}")
        need("Traceback" not in done.stdout and "Python Exception" not in done.stdout, done.stdout)

    @staticmethod
    def sizes(kept, most):
        for name in os.listdir(kept):
            size = os.path.getsize(os.path.join(kept, name))
            need(size <= most, f"{name} has {size} bytes")


def small(test, source):
    with open(os.path.join(source, "tests/gdb/ring.c"), encoding="utf-8") as file:
        ring = test.program("ring", file.read())
    kept, shown = test.run("mpi", "-n", "4", ring, "--", "wrong")
    need("saved a core file in" in shown and "without" not in shown, shown)
    test.sizes(kept, SMALL)
    moved = kept + "-moved"
    os.rename(kept, moved)
    test.look(moved, ["ranks", "rank apply all print counter", "rank apply 0,2 print x", "bt", "diff-ranks count 0 2", "calls 1 1"], [
        "[rank 2, running] main () at ring.c:22",
        "   1     blocked  MPI_Allreduce, count 4, MPI_DOUBLE, MPI_SUM  MPI_COMM_WORLD  1    ring.c:22",
        "rank 1: $2 = 2", "rank 3: $4 = 6", "rank 0: $5 = {1, 1, 2, 3}", "rank 2: $6 = {21, 3, 4, 5}", "in main (argc=2", "4 on rank 0, 3 on rank 2",
        "  1  MPI_Allreduce, count 4, MPI_DOUBLE, MPI_SUM  MPI_COMM_WORLD  ring.c:22  not complete"])
    kept, shown = test.run("mpi", "-n", "4", ring, code=0)
    need(not os.path.exists(kept), "a run without a finding keeps nothing")
    for left in (moved, kept):
        shutil.rmtree(left, ignore_errors=True)


def large(test):
    program = test.program("large", LARGE)
    kept, shown = test.run("mpi", "-n", "4", program, "--", "1000")
    need("without" not in shown, shown)
    test.sizes(kept, LIMIT)
    look = ["rank apply all print table[99999]", "rank 2", "print zeros[77777]", "print data[999]", "bt -1", "frame function main", "print base[7]",
            "print base[8]"]
    test.look(kept, look, ["rank 3: $4 = 100002", "$5 = 0\n", "$6 = 501.5\n", "in main (argc=2", "$7 = 20\n", "$8 = 0\n"])
    kept, shown = test.run("mpi", "-n", "4", program, "--", "2000000")
    need("MB of memory, for which it has no room" in shown, shown)
    test.sizes(kept, LIMIT)
    test.look(kept, ["ranks", *look[:2], "bt -1"], ["rank 3: $4 = 100002", "MPI_Barrier", "in main (argc=2"])
    kept, shown = test.run("mpi", "-n", "4", program, "--", "1000", "crash")
    test.look(kept, ["ranks", "print rank"], ["[rank 1, running] main () at large.c:", "$1 = 1\n"])
    kept, shown = test.run("mpi", "-n", "4", program, "--", "1000", "heap")  # the C library ends the process with its heap locked
    need("signal 6" in shown, shown)
    test.look(kept, ["ranks", "print rank"], ["[rank 1, running] main () at large.c:", "$1 = 1\n"])
    return program


def nothing_left(test, program):
    kept, shown = test.run("mpi", "-n", "2", program, "--", "1000",
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
    need("no core file is saved in" in shown and not os.path.exists(kept), shown)
    os.mkdir(kept)
    done = subprocess.run([test.lockstep, "mpi", "--core", kept, program], stderr=subprocess.PIPE, text=True, check=False)
    need(done.returncode == 2 and "it exists; name a new folder" in done.stderr, done.stderr)
    running = subprocess.Popen([test.lockstep, "mpi", "--core", test.new(), "-n", "2", program, "--", "10", "wait"], cwd=test.folder)
    parts = []
    while not parts and running.poll() is None:
        parts = [name for name in os.listdir(test.folder) if ".part-" in name]
        time.sleep(0.01)
    need(parts, "the run ended")
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    while os.path.exists(os.path.join(test.folder, parts[0])):
        time.sleep(0.01)


def killed(test, ring):
    """gdb kills the program: the folder with the images of its ranks goes."""
    tmp = os.path.join(test.folder, "tmp")
    os.mkdir(tmp)
    done = subprocess.run([test.lockstep, "gdb", "-nx", "-batch", "-ex", "catch finding", "-ex", "run", "-ex", "info sharedlibrary", "-ex", "kill",
                           "--", test.lockstep, "mpi", ring, "--", "wrong"], env={**test.environment, "TMPDIR": tmp}, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    need(tmp + "/lockstep-" in done.stdout, done.stdout)
    while os.listdir(tmp):
        time.sleep(0.01)


def threads(test, build):
    kept, _ = test.run("spmd", "-n", "3", os.path.join(build, "tests/cli/libspmd_program.so") + ":leaves")
    test.sizes(kept, SMALL)
    test.look(kept, ["ranks"], ["3 ranks, ", "   1  "])


def scenario(test, source):
    """The steps of a scenario, and its tensors."""
    kept, _ = test.run("run", os.path.join(source, "tests/gdb/gradients.yaml"))
    test.sizes(kept, SMALL)
    test.look(kept, ["ranks", "rank 2", "shard gradients 0", "diff-ranks gradients 0 2"], [
        "   2     blocked  all_reduce max of 1024 f32  world         0    gradients.yaml:6", "[rank 2, blocked] step gradients at gradients.yaml:6",
        "rank 0 .send: 1024 f32 = {", "of 1024 f32 differ\n"])
    kept, _ = test.run("run", os.path.join(source, "scenarios/bugs/embedding_weight_flipped.yaml"), code=0)  # as it expects
    test.look(kept, ["rank", "print $divergence_ours[$divergence_element] == $divergence_theirs[$divergence_element]", "shard input_dist 0"], [
        "stage input_dist is wrong: input_dist/product/product/weights, rank 0, element 5\n", "  ours: ", "\nrank 0\n", "$1 = 0\n", "rank 0 .product/weights: 9 f32 = {"])
    kept, _ = test.run("run", os.path.join(source, "tests/gdb/gradients.yaml"), "--on", "mpi", code=2)
    need(not os.path.exists(kept), "a spread simulation has no core file")


def programs(test, build, nccl):
    """NCCL programs: a core file of each rank."""
    test.environment.update(LD_LIBRARY_PATH=nccl, MEET=os.path.join(test.folder, "meet"))
    kept, shown = test.run("exec", "-n", "4", "--", os.path.join(build, "tests/exec/exec_bugs"), "op")
    need("saved core files of 4 ranks in" in shown, shown)
    os.remove(test.environment["MEET"])
    done = subprocess.run([test.lockstep, "exec", "--core", "/proc/none", "-n", "4", "--", os.path.join(build, "tests/exec/exec_bugs"), "op"],
                          env=test.environment, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, check=False)
    need(done.returncode == 1 and "no post-mortem is saved in /proc/none: cannot make the directory" in done.stderr, done.stderr)
    test.sizes(kept, SMALL)
    with open(os.path.join(kept, "core.json"), encoding="utf-8") as file:
        need([one["rank"] for one in json.load(file)["cores"]] == [0, 1, 2, 3], "an index of four ranks")
    test.look(kept, ["ranks", "rank 2", "print own_rank", "rank apply all print own_rank", "bt", "rank 7"], [
        "finding collective.op_mismatch of ranks 2 at", "*  0     all_reduce sum of 64 f32 on world  main () at bugs.c:",
        "   2     all_reduce max of 64 f32 on world  main () at bugs.c:", "$1 = 2\n", "rank 0: $2 = 0", "rank 3: $5 = 3", "in main (",
        "there is no core file of rank 7; there are ranks 0-3"])
    with open(os.path.join(kept, "core.json"), "w", encoding="utf-8") as file:
        file.write('{"cores": [{"file": "../x", "program": "y"}]}')
    test.look(kept, [], ["is not the list of core files that lockstep writes"])


def main():
    build, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    if shutil.which("gdb") is None:
        print("skipped: gdb is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        test = Test(build, folder)
        small(test, source)
        program = large(test)
        nothing_left(test, program)
        killed(test, os.path.join(folder, "ring"))
        threads(test, build)
        scenario(test, source)
        if len(sys.argv) > 3:
            programs(test, build, os.path.abspath(sys.argv[3]))
    print("core files have what a debugger needs")


main()
