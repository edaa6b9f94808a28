#!/bin/sh
# usage: check_too_few.sh LOCKSTEP SOURCE. What `compare --real nccl` says on a machine of three GPUs.
# In place of lockstep-cuda stands a script that gives what three GPUs once returned, and for four
# ranks says what lockstep-cuda says there.
set -eu
lockstep=$1 source=$2
recorded=$source/recordings/h200-nccl-2.28.9/torch-s-embedding_bag-max-data-parallel-on-three-ranks
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp "$lockstep" "$dir/lockstep"
cat >"$dir/lockstep-cuda" <<END
#!/bin/sh
scenario=\$2
while [ \$# -gt 0 ]; do
    case \$1 in
    --recording) recording=\$2 ;;
    --marks) marks=\$2 ;;
    esac
    shift
done
case \$scenario in
*max_data_parallel*)
    cp -r "$recorded/." "\$recording"
    for rank in 0 1 2; do : >"\$marks/rank_\$rank.pid"; : >"\$marks/rank_\$rank.done"; done
    ;;
*)
    echo "4 ranks need 4 GPUs, this machine has 3" | tee "\$marks/rank_0.too_few"
    exit 3
    ;;
esac
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
