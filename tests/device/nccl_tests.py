"""The kernels of nccl-tests that use NCCL's device API, from a git directory of its repository: nccl_tests.py BUILD SCHEDULES. Before the
commit that mended their races each has a finding; after it, each has the right result in many schedules without one. The variable
LOCKSTEP_NCCL_TESTS_SOURCE names the directory; without it the test is skipped.
"""
import os
import re
import subprocess
import sys
import tempfile

MENDED = "081ea64"  # Fix device kernel synchronization races
ALL_REDUCE = ["allReduceLsaKernel", "allReduceLsaVectorizedKernel", "allReduceMultimemKernel", "allReduceMultimemVectorizedKernel"]
ALL_TO_ALL = ["NvlAlltoAllKernel", "NvlAlltoAllKernelOptimized", "GinAlltoAllKernel", "HybridAlltoAllKernel"]


def run(words):
    return subprocess.run(words, capture_output=True, text=True)


def build(tools, folder, source, commit):
    """A program with all kernels of the commit."""
    made = f"{folder}/{commit[:9]}"
    os.mkdir(made)
    text = {}
    for name in ("all_reduce.cu", "alltoall.cu", "multimem_ops.h", "vector_types.h"):
        shown = run(["git", "-C", source, "show", f"{commit}:src/{name}"])
        if shown.returncode != 0:
            sys.exit(shown.stderr)
        text[name] = shown.stdout
    for name in ("multimem_ops.h", "vector_types.h"):
        with open(f"{made}/{name}", "w", encoding="utf-8") as out:
            out.write(text[name])
    with open(f"{made}/kernels.h", "w", encoding="utf-8") as out:
        for name in ("all_reduce.cu", "alltoall.cu"):
            out.write("".join(re.findall(r"^template <typename T>\n__(?:global|device)__ void .*?^}\n", text[name], re.S | re.M)))
    done = run([f"{tools}/lockstep-cuda-cc", "-I", made, f"{os.path.dirname(os.path.abspath(__file__))}/upstream.cu", "-o",
                f"{made}/program"])
    if done.returncode != 0:
        sys.exit(done.stderr)
    return f"{made}/program"


def main():
    tools, schedules, source = sys.argv[1], sys.argv[2], os.environ.get("LOCKSTEP_NCCL_TESTS_SOURCE", "")
    if not source:
        print("skipped: LOCKSTEP_NCCL_TESTS_SOURCE names no git directory of nccl-tests")
        sys.exit(77)
    complaints = []
    with tempfile.TemporaryDirectory() as folder:
        wrong, right = (build(tools, folder, source, commit) for commit in (f"{MENDED}~1", MENDED))
        for name in ALL_REDUCE + ALL_TO_ALL:
            spmd = [f"{tools}/lockstep", "spmd"]
            apart = ["--mesh", "host=2,gpu=2"] if name == "HybridAlltoAllKernel" else []
            found = run(spmd + ["-n", "4", *apart, wrong, "--", name])
            if found.returncode != 1 or "rma.race" not in found.stdout:
                complaints.append(f"{name} before {MENDED}: {found.stdout[-1000:]} {found.stderr}")
            for words in (["-n", "2"], ["-n", "8"], ["-n", "4", *apart, "--explore", schedules]):
                done = run(spmd + words + [right, "--", name])
                if done.returncode != 0:
                    complaints.append(f"{name} {words}: {done.stdout[-1000:]} {done.stderr}")
    print("\n".join(complaints))
    sys.exit(1 if complaints else 0)


main()
