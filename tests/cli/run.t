# A scenario that holds: every stage, its class, and the exit code.
$ lockstep run --color never $SOURCE/scenarios/sharded_embedding/row_wise.yaml
>       case and stage                        class             elements   differing    max ulps  of bound  order
> pass  sharded embedding, row-wise, 10 x 17  bit_exact     sim, ... s
>         input_dist                          bit_exact               40           0           0         0
>         lookup                              bit_exact              408           0           0         0
>         output_dist                         bit_exact              408           0           0         0
>
> run: 1 passed, 0 failed, 0 skipped
# A class that the scenario's checks do not let pass says which they want.
$ sed 's/^checks:.*/checks: {oracle: bit_exact}/; s/weights: exact/weights: {normal: {std: 0.1}}/; s/pooling: none/pooling: sum/' $SOURCE/scenarios/sharded_embedding/row_wise.yaml > strict.yaml; lockstep run --color never --quiet strict.yaml | grep -A 1 'stage lookup'
>   stage lookup is within_bound: ... of 272 elements differ, by up to ... ulps (... of the bound)
>     the scenario's checks require bit_exact
# A plan that was broken on purpose points at the table, the rank and the sample.
$ sed '/^expect:/d' $SOURCE/scenarios/bugs/tail_rows_forgotten.yaml > broken.yaml; lockstep run --color never --quiet broken.yaml | tr '\n' ' ' | grep -o 'stage output_dist, table product, feature product, values of rank 0, element 16: *sample 2 of rank 0, column 0; *id 9 ([^)]*), whose row is on no rank'
> stage output_dist, table product, feature product, values of rank 0, element 16: sample 2 of rank 0, column 0; id 9 (position 0, 4 in the bag), whose row is on no rank
$ lockstep run --quiet broken.yaml > /dev/null
? 1
# The same plan without leave to be broken is refused, with a caret.
$ sed 's/, allow_broken: true//' broken.yaml > refused.yaml; lockstep run refused.yaml
! refused.yaml:13:39: error: sizes: they add up to 9, but table product has 10 rows
! ...
? 2
# A block that lies beyond the table says where its sizes are, in a run and in a plan.
$ sed 's/sizes: .*, allow/sizes: [2147483647, 3, 2, 1], allow/' broken.yaml > beyond.yaml; lockstep plan beyond.yaml; lockstep run --quiet beyond.yaml | grep -c 'error: beyond.yaml:13:39: sizes: block 0'
> 1
! lockstep: error: beyond.yaml:13:39: sizes: block 0 of table product has 2147483647 rows from 0 on, but the table has 10
# So do weights that cannot be quantised.
$ printf 'lockstep: 1\nname: q\nmesh: {shape: [2]}\ntables:\n  - {name: t, rows: 4, dim: 2, weights: {normal: {std: 65537}}, sharding: {type: row_wise},\n     quantise: {to: int8}}\ninputs: {batch: 2}\n' > wide.yaml; lockstep run --quiet wide.yaml | grep -c 'error: wide.yaml:6:16: quantise: weights of table t'
> 1
# A bug that a scenario expects is a pass; when it does not appear, the scenario fails.
$ lockstep run --quiet $SOURCE/scenarios/bugs/id_out_of_range.yaml > /dev/null
$ sed 's/ids: {values: .*}}/ids: {values: [[0, 9, 3], [4, 1, 2]]}}/' $SOURCE/scenarios/bugs/id_out_of_range.yaml > fine.yaml; lockstep run --quiet fine.yaml | grep 'did not appear'
>   error: the expected input.id_out_of_range did not appear
# Nothing is half-run: one bad file among good ones, and nothing runs.
$ lockstep run $SOURCE/scenarios/sharded_embedding/row_wise.yaml refused.yaml > out 2> err; echo $? $(wc -c < out)
> 2 0
$ lockstep run
! lockstep: error: run needs at least one scenario file
? 2
# The device is the simulator's; a real backend has its own.
$ lockstep run --backend mpi --device cuda $SOURCE/scenarios/sharded_embedding/row_wise.yaml
! lockstep: error: --device requires the simulator; mpi runs on its own devices
? 2
$ lockstep run missing.yaml
! missing.yaml: error: ...
? 2
# Only a schedule that found something is in the command that shows it again.
$ for s in dtensor_example/blocks_redistributed bugs/all_reduce_max_on_one_rank; do lockstep run --explore 3 --json - $SOURCE/scenarios/$s.yaml | grep -o '"reproduce.* --backend sim.*--seed\|"reproduce.* --backend sim'; done
> "reproduce": "lockstep run --backend sim
> "reproduce": "lockstep run --backend sim --schedule random --seed
# JSON goes to stdout alone.
$ lockstep run --json - $SOURCE/scenarios/sharded_embedding/row_wise.yaml | head -n 3
> {
>   "format": 1,
>   "command": "run",
$ lockstep compare $SOURCE/scenarios/sharded_embedding/row_wise.yaml
! lockstep: error: compare needs --real nccl, --real mpi or --real DIR
? 2
$ lockstep compare --quiet --real /nonexistent $SOURCE/scenarios/sharded_embedding/row_wise.yaml > /dev/null
? 2
# Calls without their data prove nothing of what they compute, and say so.
$ printf 'lockstep: 1\nname: calls\nmesh: {shape: [2]}\nprogram: {steps: [{all_reduce: {count: 8, op: sum}}]}\n' > calls.yaml; lockstep run --color never --shape-only calls.yaml
> skip  calls             unjudged: its calls match (2 in 1 sets, 64 bytes sent, 0.00725 ms on h100); their results need data
>         all_reduce on world for 0_all_reduce: 2 calls, 64 bytes sent
>
> run: 0 passed, 0 failed, 1 skipped
? 5
# Training steps: each has its stages and its norms; the first that is wrong is told with its step and row.
$ f=$SOURCE/scenarios/training/row_wise_rowwise_adagrad.yaml; lockstep run --color never $f | grep -E 'step2.update|norm'; lockstep run --json - $f | grep -c '"gradient_norm"'; sed 's/^train:.*/train: {steps: 3}\nfaults: [{type: duplicate_counted_once, rank: 2, index: 1}]/' $f > injected.yaml; lockstep run --color never injected.yaml | grep -E -A1 '^  stage step1.lookup_backward'
>         step2.update                            within_bound            90          27          33     0.256
>         step 0: norm of the gradients 4.89528, of the weights after it 0.926495
>         step 1: norm of the gradients 7.17246, of the weights after it 0.950486
>         step 2: norm of the gradients 5.52259, of the weights after it 0.951354
> 3
>   stage step1.lookup_backward is wrong: 42 of 81 elements differ, by up to a sign change (3.82e+06 of the bound)
>     step 1: stage lookup_backward, table product, feature product, gradients of rank 2, element 0: row 6, column 0: got -0.182778582, expected 0.0637262762 (sign change; allowed difference 1.59e-07)
# Recordings are found in folders of folders.
$ mkdir -p deep/er; cp -r $SOURCE/recordings/h200-nccl-2.28.9/sharded-embedding-row-wise-10-x-17 deep/er/one; lockstep replay --quiet deep
> replay: 1 passed, 0 failed, 0 skipped
$ d=$SOURCE/recordings/h200-shared-nccl-2.32.3.torch/tensor_parallel; lockstep replay $d | grep '^skip\|replay:'; lockstep replay --verbose $d | grep -c '^skip  call [0-9]* .*a message is not replayed'; lockstep replay --json - $d | grep -c '"reason"'
> skip  9 cases           a message is not replayed
> replay: 11 passed, 0 failed, 9 skipped
> 9
> 9
$ lockstep replay /nonexistent
> ...
? 2
# What TorchRec's sharding types give by design passes and is told; without its name it is what the oracle wants.
$ lockstep run --color never $SOURCE/scenarios/torchrec/grid_mean.yaml | grep -A 1 '^ *output_dist'
>         output_dist                                 by_design              144          91  20,107,008     0.435
>           stage output_dist, table blocks, feature blocks, values of rank 0, element 0: sample 0 of rank 0, column 0; id 0 (position 0, 4 in the bag), owned by rank 2: got 0.228078932, unsharded 0.0570197378: table blocks is grid, and TorchRec's grid does not divide a mean (torchrec_quirks: grid_mean_not_divided)
$ sed 's/^torchrec_quirks.*/checks: {oracle: within_bound}/' $SOURCE/scenarios/torchrec/grid_mean.yaml > plain.yaml; lockstep run --color never plain.yaml | grep output_dist
>         output_dist                                 within_bound           144          32         112     0.376
$ (cat $SOURCE/scenarios/torchrec/grid_mean.yaml; echo 'checks: {oracle: within_bound}') > strict.yaml; lockstep run --color never --quiet strict.yaml | grep 'stage output_dist is'
>   stage output_dist is by_design: 91 of 144 elements differ, by up to 20,107,008 ulps (0.435 of the bound)
# A feature with a batch size of its own has bags, which are no samples: what is said of an input says which bag.
$ printf 'lockstep: 1\nname: bags\nmesh: {shape: [2]}\ntables: [{name: user, rows: 10, dim: 4, sharding: {type: row_wise}}]\ninputs:\n  batch: 3\n  features:\n    user: {stride_per_rank: 2, inverse_indices: {values: [[0, 1, 1], [1, 0, 0]]}, lengths: {constant: 2}, ids: {values: [[1, 2, 3, 4], [5, 6, 7, 12]]}}\n' > bags.yaml; lockstep run --color never bags.yaml | grep 'feature user'
>     table user, feature user: rank 1, bag 1, position 1: id 12 is not among the table's 10 rows (set inputs.ids_out_of_range to clamp or wrap to let such ids pass)
# Of outputs it is the sample that takes them.
$ (sed 's/12\]\]/9]]/' bags.yaml; echo 'faults: [{type: bit_flip, rank: 1, call: 4, index: 30}]') > flipped.yaml; lockstep run --color never flipped.yaml | grep -o 'stage output_dist, .* of rank 0, column 0'
> stage output_dist, table user, feature user, values of rank 0, element 0: sample 0 of rank 0, column 0
