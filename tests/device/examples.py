"""NVIDIA's seven examples of NCCL's device API from a checkout of its repository: examples.py BUILD. Each runs on 2 to 8 ranks and prints
the result that its text states, without a finding. The variable LOCKSTEP_NCCL_SOURCE names a checkout or a git directory; without it the
test is skipped. The fused kernels work on 256 tokens in place of 4096; docs/performance.md has the times of all.
"""
import os
import subprocess
import sys
import tempfile

EXAMPLES = "docs/examples"
# The expected result of each, and whether it uses several hosts.
RUNS = [("06_device_api/01_allreduce_lsa", "Result verification: PASSED", [2, 4, 8], False),
        ("06_device_api/02_alltoall_gin", "AlltoAll result: PASSED", [2, 3, 8], False),
        ("06_device_api/03_alltoall_hybrid", "AlltoAll result: PASSED", [2, 4], True),
        ("07_kernel_fusion/01_rmsnorm_lsa", "SUCCESS: Example completed", [2, 4, 8], False),
        ("07_kernel_fusion/02_rmsnorm_multimem", "SUCCESS: Example completed", [2, 4, 8], False),
        ("07_kernel_fusion/03_rmsnorm_gin", "SUCCESS: Example completed", [2, 4, 8], False),
        ("07_kernel_fusion/04_rmsnorm_hybrid", "SUCCESS: Example completed", [2, 4, 8], True)]
SMALLER = (b"sequence_length = 4096;", b"sequence_length = 256;")


def take(source, path, out):
    """A file of a checkout, or of the newest commit of a git directory."""
    plain = os.path.join(source, path)
    if os.path.exists(plain):
        text = open(plain, "rb").read()
    else:
        done = subprocess.run(["git", "-C", source, "show", f"HEAD:{path}"], capture_output=True)
        if done.returncode != 0:
            return False
        text = done.stdout
    with open(out, "wb") as file:
        file.write(text.replace(*SMALLER))
    return True


def run(words):
    return subprocess.run(words, capture_output=True, text=True)


def check(build, program, text, ranks, apart):
    words = [f"{build}/lockstep", "spmd", "-n", str(ranks)]
    for extra in [[]] + ([["--mesh", f"host=2,gpu={ranks // 2}"]] if apart else []):
        done = run(words + extra + [program])
        if done.returncode != 0 or text not in done.stdout or "mismatch" in done.stdout or "FAILED" in done.stdout:
            yield f"{program} on {ranks} {extra}: {done.stdout[-1500:]} {done.stderr}"


def main():
    build, source = sys.argv[1], os.environ.get("LOCKSTEP_NCCL_SOURCE", "")
    if not source:
        print("skipped: LOCKSTEP_NCCL_SOURCE names no checkout of NVIDIA's nccl repository")
        sys.exit(77)
    complaints = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("utils.h", "nccl_utils.h"):
            take(source, f"{EXAMPLES}/common/include/{name}", f"{folder}/{name}")
        take(source, f"{EXAMPLES}/common/src/utils.cc", f"{folder}/utils.cc")
        take(source, f"{EXAMPLES}/07_kernel_fusion/include/rmsnorm_utils.cuh", f"{folder}/rmsnorm_utils.cuh")
        for path, text, counts, apart in RUNS:
            name = os.path.basename(path)
            if not (take(source, f"{EXAMPLES}/{path}/c/main.cu", f"{folder}/{name}.cu") or
                    take(source, f"{EXAMPLES}/{path}/main.cu", f"{folder}/{name}.cu")):
                complaints.append(f"{source} has no {path}")
                continue
            made = run([f"{build}/lockstep-cuda-cc", "-I", folder, f"{folder}/{name}.cu",
                        f"{folder}/utils.cc", "-o", f"{folder}/{name}"])
            if made.returncode != 0:
                complaints.append(f"{name}: {made.stderr}")
                continue
            for ranks in counts:
                complaints += check(build, f"{folder}/{name}", text, ranks, apart)
    print("\n".join(complaints))
    sys.exit(1 if complaints else 0)


main()
