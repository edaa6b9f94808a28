"""NVIDIA's examples of NCCL's device API from a checkout of its repository: examples.py BUILD. Each runs on 2 to 8 ranks and prints the
result that its text states, without a finding. The variable LOCKSTEP_NCCL_SOURCE names a checkout or a git directory; without it the test
is skipped.
"""
import os
import subprocess
import sys
import tempfile

EXAMPLES = "docs/examples/06_device_api"
COMMON = "docs/examples/common"
# The expected result of each, and whether it uses several hosts.
RUNS = [("01_allreduce_lsa", "Result verification: PASSED", [2, 4, 8], False),
        ("02_alltoall_gin", "AlltoAll result: PASSED", [2, 3, 8], False),
        ("03_alltoall_hybrid", "AlltoAll result: PASSED", [2, 4], True)]


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
        file.write(text)
    return True


def run(words):
    return subprocess.run(words, capture_output=True, text=True)


def check(build, program, text, ranks, apart):
    words = [f"{build}/lockstep", "spmd", "-n", str(ranks)]
    for extra in [[]] + ([["--mesh", f"host=2,gpu={ranks // 2}"]] if apart else []):
        done = run(words + extra + [program])
        if done.returncode != 0 or text not in done.stdout or "mismatch" in done.stdout:
            yield f"{program} on {ranks} {extra}: {done.stdout[-1500:]} {done.stderr}"


def main():
    build, source = sys.argv[1], os.environ.get("LOCKSTEP_NCCL_SOURCE", "")
    if not source:
        print("skipped: LOCKSTEP_NCCL_SOURCE names no checkout of NVIDIA's nccl repository")
        sys.exit(77)
    complaints = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("utils.h", "nccl_utils.h"):
            take(source, f"{COMMON}/include/{name}", f"{folder}/{name}")
        take(source, f"{COMMON}/src/utils.cc", f"{folder}/utils.cc")
        for name, text, counts, apart in RUNS:
            if not (take(source, f"{EXAMPLES}/{name}/c/main.cu", f"{folder}/{name}.cu") or
                    take(source, f"{EXAMPLES}/{name}/main.cu", f"{folder}/{name}.cu")):
                complaints.append(f"{source} has no {name}")
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
