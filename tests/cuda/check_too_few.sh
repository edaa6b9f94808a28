#!/bin/sh
# usage: check_too_few.sh LOCKSTEP SOURCE. Tests `compare --real nccl` on a machine of three GPUs. A
# program replaces lockstep-cuda: it returns a recorded result of three GPUs, and for four ranks the
# error of lockstep-cuda there.
set -eu
lockstep=$1 source=$2
recorded=$source/recordings/h200-nccl-2.28.9/torch-s-embedding_bag-max-data-parallel-on-three-ranks
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp "$lockstep" "$dir/lockstep"
cat >"$dir/lockstep-cuda" <<END
#!/usr/bin/env python3
import os, shutil, struct, sys
home = sys.argv[sys.argv.index("--runs") + 1]
PATH = 4096
run = struct.Struct(f"{PATH}s{PATH}s{PATH}s{PATH}sQd?7x")  # ls_launch_run
with open(home + "/rank_0.runs", "rb") as runs:
    while len(told := runs.read(run.size)) == run.size:
        scenario, recording, marks = (text.split(b"\0")[0].decode() for text in run.unpack(told)[:3])
        if "max_data_parallel" not in scenario:
            with open(marks + "/rank_0.too_few", "w", encoding="utf-8") as file:
                print("-8 4 ranks need 4 GPUs, this machine has 3", file=file)
            sys.exit(3)
        shutil.copytree("$recorded", recording, dirs_exist_ok=True)
        for rank in range(3):
            for what in "pid", "done":
                with open(f"{marks}/rank_{rank}.{what}", "w", encoding="utf-8") as file:
                    print(os.getpid(), file=file)
        with open(home + "/said", "wb") as said:
            said.write(b".")
END
chmod +x "$dir/lockstep-cuda"
three=$source/scenarios/torch_results/max_data_parallel.yaml
four=$source/scenarios/nccl_sweep/all_reduce_four.yaml

# expect CODE PATTERN FILE...: the command's exit code, and a line that it must print.
expect() {
    code=$1 pattern=$2
    shift 2
    got=0
    "$dir/lockstep" compare "$@" --real nccl >"$dir/out" 2>&1 || got=$?
    if [ "$got" != "$code" ] || ! grep -qE "$pattern" "$dir/out"; then
        cat "$dir/out"
        echo "exit $got, wanted $code and: $pattern"
        exit 1
    fi
}
expect 0 'compare: 1 passed, 0 failed, 1 skipped' "$three" "$four"
expect 0 '4 ranks need 4 GPUs, this machine has 3' "$three" "$four"
expect 3 '4 ranks need 4 GPUs, this machine has 3' "$four"
expect 5 'compare: 0 passed, 0 failed, 2 skipped' "$four" "$four"
echo "three GPUs: what fits passes, what does not is skipped"
