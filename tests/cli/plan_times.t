# A plan's stages timed: in the simulator, which tries the path that GPUs take. The times are this
# machine's, so the numbers are left out.
$ lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --machine "$SOURCE/recordings/h200-nccl-2.28.9.machine4.json" --nodes 100000 --measured sim --keep times.json > live.txt; sed -E 's/ +[-+]?[0-9]+\.[0-9]+%?/ X/g' live.txt | grep -E 'rank|^ +[03] |error'
> stages: predicted for measured, measured on the simulator, one CPU thread for all ranks (median of 11)
>   rank  stage          predicted ms    measured ms       least ms     error
>      0  input_dist X X X X
>      0  lookup X X X X
>      0  output_dist X X X X
>      0  gradients X X X X
>      0  update X X X X
>      0  all stages X X X X
>      3  input_dist X X X X
>      3  lookup X X X X
>      3  output_dist X X X X
>      3  gradients X X X X
>      3  update X X X X
>      3  all stages X X X X
> input_dist   error: mean X %, largest X %
> lookup       error: mean X %, largest X %
> output_dist  error: mean X %, largest X %
> gradients    error: mean X %, largest X %
> update       error: mean X %, largest X %
> all stages   error: mean X %, largest X %
# Kept, they are the same table again, without running anything.
$ lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --machine "$SOURCE/recordings/h200-nccl-2.28.9.machine4.json" --measured times.json > again.txt; diff live.txt again.txt && echo same
> same
$ lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --machine "$SOURCE/recordings/h200-nccl-2.28.9.machine4.json" --measured times.json --json - | grep -cE '"(rank|predicted_ms|measured_ms|least_ms|error)":'
> 120
# What the file says about its collectives: bytes that are the plan's.
$ grep -E '"(stage|what|kind)"' times.json | head -n 3
>    "stage": "input_dist",
>    "what": "sizes",
>    "kind": "all_to_all",
# Files that do not fit, or are broken, are refused.
$ lockstep plan "$SOURCE/scenarios/sharding_tutorial/row_wise.yaml" --measured times.json
! lockstep: error: times.json: the times are of the scenario "planned tables, small, four ranks" with seed 31, not of "sharding tutorial, row-wise" with seed 2
? 2
$ head -n 9 times.json > cut.json; lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --measured cut.json 2> told; echo $?; head -n 1 told
> 2
> cut.json:10:1: error: did not find expected node content
$ sed 's/"median_ms": [0-9.e-]*/"median_ms": -1/' times.json > negative.json; lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --measured negative.json 2>&1 | head -n 3
> negative.json:12:18: error: expected a number from 0 to 1e+09
>    12 |     "median_ms": -1,
>       |                  ^~
$ sed 's/rank: 3, offset/rank: 2, offset/' times.json > overlapping.json; lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --measured overlapping.json 2>&1 | cut -c1-150 | head -n 1
> overlapping.json:655:10: error: the plan in it cannot be used: plan:5:5: error: plan: table item: row blocks must be on ascending ranks, but rank 2 fo
$ lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --measured ./none.json
! lockstep: error: cannot open './none.json': No such file or directory
? 2
$ lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --keep x.json
! lockstep: error: --keep requires --measured nccl (or sim)
? 2
$ lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --measured sim --validate
! lockstep: error: --measured excludes --validate, --diff and --model torchrec
? 2
# What four H200 took, beside what is predicted today for the same plans (docs/planner.md).
$ for s in mixed_four click_four row_wise_four; do lockstep plan "$SOURCE/scenarios/planned/large/$s.yaml" --machine "$SOURCE/recordings/h200-nccl-2.28.9.plans/machine4.json" --measured "$SOURCE/recordings/h200-nccl-2.28.9.plans/$s.times.json"; done
> forward stages: predicted for measured, measured on nccl 2.28.9, cuda 13.0, 4 GPUs: NVIDIA H200 (median of 11)
>   rank  stage          predicted ms    measured ms       least ms     error
>      0  input_dist          0.13440        0.13420        0.13054     +0.1%
>      0  lookup              0.08256        0.09389        0.09194    -12.1%
>      0  output_dist         0.12015        0.11478        0.11428     +4.7%
>      0  all stages          0.33711        0.34287        0.33676     -1.7%
>      1  input_dist          0.13440        0.13413        0.13043     +0.2%
>      1  lookup              0.07342        0.10122        0.10029    -27.5%
>      1  output_dist         0.12015        0.11491        0.11444     +4.6%
>      1  all stages          0.32797        0.35026        0.34516     -6.4%
>      2  input_dist          0.13440        0.13449        0.13060     -0.1%
>      2  lookup              0.07640        0.11514        0.11370    -33.6%
>      2  output_dist         0.12015        0.11509        0.11448     +4.4%
>      2  all stages          0.33094        0.36472        0.35878     -9.3%
>      3  input_dist          0.13440        0.13428        0.13045     +0.1%
>      3  lookup              0.07182        0.10653        0.10541    -32.6%
>      3  output_dist         0.12015        0.11487        0.11427     +4.6%
>      3  all stages          0.32637        0.35568        0.35013     -8.2%
> input_dist   error: mean 0.1 %, largest 0.2 %
> lookup       error: mean 26.4 %, largest 33.6 %
> output_dist  error: mean 4.6 %, largest 4.7 %
> all stages   error: mean 6.4 %, largest 9.3 %
> forward stages: predicted for measured, measured on nccl 2.28.9, cuda 13.0, 4 GPUs: NVIDIA H200 (median of 11)
>   rank  stage          predicted ms    measured ms       least ms     error
>      0  input_dist          0.05650        0.06091        0.05732     -7.2%
>      0  lookup              0.04861        0.05462        0.05360    -11.0%
>      0  output_dist         0.08958        0.09057        0.09018     -1.1%
>      0  all stages          0.19470        0.20611        0.20109     -5.5%
>      1  input_dist          0.05650        0.06116        0.05749     -7.6%
>      1  lookup              0.04861        0.05485        0.05389    -11.4%
>      1  output_dist         0.08958        0.09054        0.09021     -1.1%
>      1  all stages          0.19470        0.20655        0.20158     -5.7%
>      2  input_dist          0.05650        0.06082        0.05740     -7.1%
>      2  lookup              0.04861        0.05462        0.05331    -11.0%
>      2  output_dist         0.08958        0.09072        0.09014     -1.3%
>      2  all stages          0.19470        0.20617        0.20086     -5.6%
>      3  input_dist          0.05650        0.06116        0.05742     -7.6%
>      3  lookup              0.04861        0.05366        0.05277     -9.4%
>      3  output_dist         0.08958        0.09052        0.09020     -1.0%
>      3  all stages          0.19470        0.20534        0.20039     -5.2%
> input_dist   error: mean 7.4 %, largest 7.6 %
> lookup       error: mean 10.7 %, largest 11.4 %
> output_dist  error: mean 1.1 %, largest 1.3 %
> all stages   error: mean 5.5 %, largest 5.7 %
> forward stages: predicted for measured, measured on nccl 2.28.9, cuda 13.0, 4 GPUs: NVIDIA H200 (median of 11)
>   rank  stage          predicted ms    measured ms       least ms     error
>      0  input_dist          0.07005        0.08264        0.08018    -15.2%
>      0  lookup              0.09583        0.12720        0.12579    -24.7%
>      0  output_dist         0.20518        0.18547        0.18472    +10.6%
>      0  all stages          0.37107        0.39531        0.39069     -6.1%
>      1  input_dist          0.07005        0.08255        0.08007    -15.1%
>      1  lookup              0.09599        0.12614        0.12410    -23.9%
>      1  output_dist         0.20518        0.18540        0.18436    +10.7%
>      1  all stages          0.37122        0.39409        0.38853     -5.8%
>      2  input_dist          0.07005        0.08277        0.08021    -15.4%
>      2  lookup              0.09578        0.12605        0.12525    -24.0%
>      2  output_dist         0.20518        0.18567        0.18402    +10.5%
>      2  all stages          0.37102        0.39448        0.38948     -5.9%
>      3  input_dist          0.07005        0.08283        0.07656    -15.4%
>      3  lookup              0.09590        0.12650        0.12515    -24.2%
>      3  output_dist         0.20518        0.18552        0.18432    +10.6%
>      3  all stages          0.37114        0.39484        0.38603     -6.0%
> input_dist   error: mean 15.3 %, largest 15.4 %
> lookup       error: mean 24.2 %, largest 24.7 %
> output_dist  error: mean 10.6 %, largest 10.7 %
> all stages   error: mean 6.0 %, largest 6.1 %
# The plan's own files are written beside either report.
$ lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --nodes 100000 --measured times.json --svg load.svg --torchrec torchrec.json --out plan.yaml --quiet; grep -c '</svg>' load.svg; head -n 2 plan.yaml; grep -c sharding_type torchrec.json
> 1
> lockstep_plan: 1
> ranks: 4
> 12
$ lockstep plan "$SOURCE/scenarios/planned/mixed_four.yaml" --measured times.json --explain item
! lockstep: error: --explain excludes --validate and --measured
? 2
