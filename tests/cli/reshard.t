# A scenario and its plan: NAME RANKS SHARDING_OF_A SHARDING_OF_B.
$ printf 'printf "lockstep: 1\\nname: t\\nmesh: {shape: [$2]}\\ntables:\\n  - {name: a, rows: 10, dim: 8, pooling: sum, sharding: $3}\\n  - {name: b, rows: 3, dim: 8, sharding: $4}\\ninputs: {batch: 4}\\nsteps: [forward, backward, update]\\ntrain: {steps: 2}\\noptimizer: {type: adam}\\n" > $1.yaml; lockstep plan $1.yaml --out $1.plan >/dev/null\n' > make
$ sh make four 4 "{type: row_wise}" "{type: column_wise, columns: 4, ranks: [1, 3]}"
$ sh make three 3 "{type: column_wise, columns: 4, ranks: [2, 0]}" "{type: data_parallel}"
$ sh make eight 8 "{type: table_wise, ranks: [6]}" "{type: row_wise}"
# What two steps of adam leave goes round: 4 ranks to 3, to 8 and back, the same bytes.
$ lockstep run four.yaml --checkpoint ck4 --quiet
> run: 1 passed, 0 failed, 0 skipped
$ ls ck4
> index.json
> plan.yaml
> rank_00000.safetensors
> rank_00001.safetensors
> rank_00002.safetensors
> rank_00003.safetensors
$ lockstep reshard ck4 ck3 --plan three.plan
> a  10 x 8  row_wise, 4 shards -> column_wise, 2 shards  (weights, momentum1, momentum2)
> b  3 x 8  column_wise, 2 shards -> data_parallel, 3 shards  (weights, momentum1, momentum2)
> reshard: 2 tables after step 2, 4 -> 3 ranks: ck3
$ lockstep reshard ck3 ck8 --plan eight.plan --quiet && lockstep reshard ck8 back --plan four.plan --json - | python3 -c 'import json, sys; d = json.load(sys.stdin); print(d["command"], d["verdict"], d["ranks_before"], d["ranks"], d["step"])'
> reshard pass 8 4 2
$ cmp ck4/index.json ck8/index.json >/dev/null; diff -r ck4 back && echo the same
> the same
# What cannot be is said, and leaves nothing.
$ lockstep reshard ck4 ck3 --plan three.plan
! lockstep: error: 'ck3' exists; a checkpoint needs a new folder
? 2
$ sed -i 's/rows: 10,/rows: 12,/' three.yaml; lockstep plan three.yaml --out three.plan >/dev/null; lockstep reshard ck4 no --plan three.plan
! lockstep: error: table "a" is 12 x 8 in the plan and 10 x 8 in checkpoint 'ck4'
? 2
# A tensor that would be lost: of an array that the index does not name, of a shard that is another rank's, in a file of no rank.
$ printf 'rm -rf odd; cp -r ck4 odd; python3 $SOURCE/tests/cli/change_tensor.py odd/rank_00001.safetensors "$@"; lockstep reshard odd no --plan four.plan\n' > change
$ cp -r ck4 odd; python3 -c 'import json; d = json.load(open("odd/index.json")); d["tables"][0]["arrays"].pop(); json.dump(d, open("odd/index.json", "w"))'; lockstep reshard odd no --plan four.plan
! lockstep: error: checkpoint 'odd': rank 0: tensor "a/momentum2/0_0" belongs to no array in index.json
? 2
$ sh change a/weights/3_0 0 copy a/extra/3_0
! lockstep: error: checkpoint 'odd': rank 1: tensor "a/extra/3_0" belongs to no array in index.json
? 2
$ sh change a/weights/3_0 0 copy extra
! lockstep: error: checkpoint 'odd': rank 1: tensor "extra" belongs to no array in index.json
? 2
$ sh change a/weights/3_0 0 copy c/weights/3_0
! lockstep: error: checkpoint 'odd': rank 1: tensor "c/weights/3_0" belongs to no array in index.json
? 2
$ sh change a/weights/3_0 0 copy a/weights/0_0
! lockstep: error: checkpoint 'odd': rank 1: tensor "a/weights/0_0" belongs to no shard of that rank in plan.yaml
? 2
$ sh change a/weights/3_0 0 copy a/weights/03_0
! lockstep: error: checkpoint 'odd': rank 1: tensor "a/weights/03_0" belongs to no shard of that rank in plan.yaml
? 2
$ rm -rf odd; cp -r ck4 odd; cp odd/rank_00001.safetensors odd/rank_00004.safetensors; lockstep reshard odd no --plan four.plan
! lockstep: error: checkpoint 'odd': rank 4: tensor "a/weights/3_0" belongs to no shard of that rank in plan.yaml
? 2
$ truncate -s 100 ck4/rank_00002.safetensors; lockstep reshard ck4 no --plan four.plan
! lockstep: error: 'ck4/rank_00002.safetensors': ...
? 2
$ lockstep reshard ck4 no
! lockstep: error: reshard needs --plan PLAN, the plan of the new shards
? 2
$ lockstep run four.yaml --checkpoint ck8
! lockstep: error: --checkpoint: "ck8" exists
? 2
$ printf 'lockstep: 1\nname: q\nmesh: {shape: [2]}\ntables: [{name: a, rows: 3, dim: 6, quantise: {to: int8}}]\ninputs: {batch: 1}\n' > quantised.yaml; lockstep run quantised.yaml --checkpoint no
! lockstep: error: quantised.yaml: --checkpoint cannot save quantised rows
? 2
$ lockstep run four.yaml three.yaml --checkpoint no
! lockstep: error: --checkpoint takes one scenario, not 2
? 2
$ ls -d no*
! ls: cannot access 'no*': No such file or directory
? 2
