# A plan's forward stages timed: in the simulator, which tries the path that GPUs take. The times are this
# machine's, so the numbers are left out.
$ lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --machine "$SOURCE/recordings/h200-nccl-2.28.9.machine4.json" --seconds 1 --measured sim --keep times.json > live.txt; sed -E 's/ +[-+]?[0-9]+\.[0-9]+%?/ X/g' live.txt | grep -E 'rank|^ +[03] |error'
> forward stages: predicted for measured, measured on the simulator, one CPU thread for all ranks (median of 11)
>   rank  stage          predicted ms    measured ms       least ms     error
>      0  input_dist X X X X
>      0  lookup X X X X
>      0  output_dist X X X X
>      0  all stages X X X X
>      3  input_dist X X X X
>      3  lookup X X X X
>      3  output_dist X X X X
>      3  all stages X X X X
> input_dist   error: mean X %, largest X %
> lookup       error: mean X %, largest X %
> output_dist  error: mean X %, largest X %
> all stages   error: mean X %, largest X %
# Kept, they are the same table again, without running anything.
$ lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --machine "$SOURCE/recordings/h200-nccl-2.28.9.machine4.json" --measured times.json > again.txt; diff live.txt again.txt && echo same
> same
$ lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --machine "$SOURCE/recordings/h200-nccl-2.28.9.machine4.json" --measured times.json --json - | grep -cE '"(rank|predicted_ms|measured_ms|least_ms|error)":'
> 80
# What the file says about its collectives: bytes that are the plan's.
$ grep -E '"(stage|what|kind)"' times.json | head -n 3
>    "stage": "input_dist",
>    "what": "sizes",
>    "kind": "all_to_all",
# Files that do not fit, or are broken, are refused.
$ lockstep plan "$SOURCE/scenarios/sharding_tutorial/row_wise.yaml" --measured times.json
! lockstep: error: times.json: the times are of the scenario "planned tables, small, four ranks" with seed 31, not of "sharding tutorial, row-wise" with seed 2
? 2
$ head -n 9 times.json > cut.json; lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --measured cut.json
! cut.json:10:1: error: did not find expected node content
? 2
$ sed 's/"median_ms": [0-9.e-]*/"median_ms": -1/' times.json > negative.json; lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --measured negative.json 2>&1 | head -n 3
> negative.json:12:18: error: expected a number from 0 to 1e+09
>         "median_ms": -1,
>                      ^
$ sed 's/rank: 3, offset/rank: 2, offset/' times.json > overlapping.json; lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --measured overlapping.json 2>&1 | cut -c1-150 | head -n 1
> overlapping.json:304:10: error: the plan in it cannot be used: plan:5:5: error: plan: table item: row blocks stand on ascending ranks, and rank 2 foll
$ lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --measured ./none.json
! lockstep: error: cannot open './none.json': No such file or directory
? 2
$ lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --keep x.json
! lockstep: error: --keep goes with --measured nccl (or sim)
? 2
$ lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --measured sim --validate
! lockstep: error: --measured excludes --validate, --diff and --model torchrec
? 2
