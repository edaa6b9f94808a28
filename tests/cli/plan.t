# The tutorial's scenario, with its ranks left open.
$ sed 's/, ranks: [01]//' "$SOURCE/scenarios/sharding_tutorial/table_wise.yaml" > free.yaml && grep -c ranks: free.yaml
> 0
? 1
# A plan of its tables, forced table wise: one large and one small table on each rank.
$ lockstep plan free.yaml --machine v100_torchrec --out plan.yaml --quiet && cat plan.yaml
> lockstep_plan: 1
> ranks: 2
> ranks_per_host: 2
> tables:
>   - name: "large_table_0"
>     rows: 4096
>     columns: 64
>     sharding: table_wise
>     kernel: fused
>     shards:
>       - {rank: 1, offset: [0, 0], size: [4096, 64]}
>   - name: "large_table_1"
>     rows: 4096
>     columns: 64
>     sharding: table_wise
>     kernel: fused
>     shards:
>       - {rank: 0, offset: [0, 0], size: [4096, 64]}
>   - name: "small_table_0"
>     rows: 1024
>     columns: 64
>     sharding: table_wise
>     kernel: fused
>     shards:
>       - {rank: 1, offset: [0, 0], size: [1024, 64]}
>   - name: "small_table_1"
>     rows: 1024
>     columns: 64
>     sharding: table_wise
>     kernel: fused
>     shards:
>       - {rank: 0, offset: [0, 0], size: [1024, 64]}
# Planned twice, the files are the same; and what differs from another is told.
$ lockstep plan free.yaml --machine v100_torchrec --out again.yaml --quiet && lockstep plan --diff plan.yaml again.yaml
$ sed 's/rank: 1/rank: 0/' plan.yaml > edited.yaml && lockstep plan --diff plan.yaml edited.yaml
> large_table_0: table_wise fused on 1 -> table_wise fused on 0; 262144 elements move
> small_table_0: table_wise fused on 1 -> table_wise fused on 0; 65536 elements move
? 1
$ lockstep plan --diff plan.yaml edited.yaml --quiet; lockstep plan --diff plan.yaml edited.yaml --json - | head -n 5
> {
>   "format": 1,
>   "command": "plan",
>   "verdict": "fail",
>   "differing": 2,
# An edited plan is checked, with the place of the error.
$ sed 's/size: \[1024, 64\]/size: [1000, 64]/' plan.yaml > broken.yaml && lockstep plan --diff plan.yaml broken.yaml
! broken.yaml:19:5: error: plan: table small_table_0: rows 1000 to 1023 are on no rank
!    19 |   - name: "small_table_0"
!       |     ^
! broken.yaml:26:5: error: plan: table small_table_1: rows 1000 to 1023 are on no rank
!    26 |   - name: "small_table_1"
!       |     ^
? 2
# A scenario runs with the plan that was written for it.
$ sed 's/type: table_wise/plan: plan.yaml/' free.yaml > planned.yaml && grep -c 'plan: plan.yaml' planned.yaml && lockstep run planned.yaml --quiet
> 4
> run: 1 passed, 0 failed, 0 skipped
# Without any sharding the planner cuts and places, and the scenario runs.
$ grep -v sharding: free.yaml > open.yaml && lockstep run open.yaml --quiet && lockstep show open.yaml | grep table
> run: 1 passed, 0 failed, 0 skipped
> table large_table_0: 4096 x 64, data_parallel
> table large_table_1: 4096 x 64, data_parallel
> table small_table_0: 1024 x 64, data_parallel
> table small_table_1: 1024 x 64, data_parallel
# The JSON is proven optimal here.
$ lockstep plan "$SOURCE/scenarios/sharding_tutorial/row_wise.yaml" --json - | grep -E '"(format|command|verdict|ranks|gap|proven_optimal)"'
>   "format": 1,
>   "command": "plan",
>   "verdict": "pass",
>   "ranks": 2,
>   "gap": 0,
>   "proven_optimal": true,
# A machine that nothing fits on: what is missing, and what would help.
$ printf 'preset: h100\nhbm_bytes: 1.25 MB\nddr_bytes: 0\n' > small.yaml && lockstep plan free.yaml --machine ./small.yaml
> 4 tables on 2 ranks of 2 a host (h100)
> no plan: proven that none fits
> shortage: all ranks together lack at least 190234 bytes of device and host memory together
> table small_table_0 finds no place: nearest as table_wise fused, whose largest shard takes 279041 bytes of device memory and 0 of host memory; most left is 184023 (rank 1) and 0
> with 2 of 4 tables placed, the ranks hold
>   rank 0: 1066208 of 1250000 bytes
>   rank 1: 1065977 of 1250000 bytes
>
> the cheapest option of each table that fits on an empty machine:
>   large_table_0: table_wise fused, 1 shards, 4.372e-05 ms on its most loaded rank
>   large_table_1: table_wise fused, 1 shards, 4.694e-05 ms on its most loaded rank
>   small_table_0: table_wise fused, 1 shards, 3.541e-05 ms on its most loaded rank
>   small_table_1: table_wise fused, 1 shards, 3.459e-05 ms on its most loaded rank
>
> single changes with which a plan exists (33 tried, each planned again):
>   store table large_table_0 in 2 bytes an element (f16 or bf16): 0.036105 ms
>   store table large_table_1 in 2 bytes an element (f16 or bf16): 0.036107 ms
>   one rank more: 3 ranks: 0.036124 ms
? 1
# What the report offers, applied: one rank more, and the plan runs.
$ sed 's/shape: \[2\]/shape: [3]/' free.yaml > more.yaml && grep -c 'shape: \[3\]' more.yaml && lockstep plan more.yaml --machine ./small.yaml --validate --out three.yaml | tail -n 1
> 1
> planned bytes are simulated bytes on every rank and stage
$ sed 's/type: table_wise/plan: three.yaml/' more.yaml > planned.yaml && lockstep run planned.yaml --quiet
> run: 1 passed, 0 failed, 0 skipped
# A table that fits on no rank whole: the report says how to cut it.
$ printf 'lockstep: 1\nname: too large for a rank\nmesh: {shape: [2]}\ntables:\n  - {name: large, rows: 4096, dim: 64, sharding: {type: table_wise}}\n  - {name: small, rows: 64, dim: 64, sharding: {type: table_wise}}\ninputs: {batch: 4}\n' > large.yaml && printf 'preset: h100\nhbm_bytes: 900 KB\nddr_bytes: 0\n' > tight.yaml && lockstep plan large.yaml --machine ./tight.yaml > why.txt; grep -E 'fragmentation|large: none|allow column_wise' why.txt
> fragmentation: there is enough memory in all, but not in pieces that the tables, as they may be cut, need
>   large: none; its least shard takes 1052768 bytes of the 900000 on a rank
>   allow column_wise for table large: 0.072012 ms
# Cut so, it fits, moves what was planned, and runs.
$ sed '/large, rows/s/table_wise/column_wise/' large.yaml > cut.yaml && lockstep plan cut.yaml --machine ./tight.yaml --validate --out cut.plan.yaml
>   rank  bytes of stage           planned sent      simulated   planned recv      simulated
>      0  input_dist sizes                   96             96             96             96
>      0  input_dist lengths                 96             96            128            128
>      0  input_dist ids                     96             96            128            128
>      0  output_dist all_to_all           3072           3072           2048           2048
>      1  input_dist sizes                   96             96             96             96
>      1  input_dist lengths                 96             96             64             64
>      1  input_dist ids                     96             96             64             64
>      1  output_dist all_to_all           1024           1024           2048           2048
> planned bytes are simulated bytes on every rank and stage
$ sed 's/type: [a-z_]*/plan: cut.plan.yaml/' large.yaml > planned.yaml && lockstep run planned.yaml --quiet
> run: 1 passed, 0 failed, 0 skipped
# Planned bytes are simulated bytes in every scenario with tables, but for the one with an id outside.
$ for f in $(grep -l "^tables:" "$SOURCE"/scenarios/*/*.yaml); do lockstep plan "$f" --nodes 100000 --validate --quiet 2> /dev/null || echo "$? $(basename "$f")"; done
> 2 id_out_of_range.yaml
# The same as JSON.
$ lockstep plan cut.yaml --machine ./tight.yaml --validate --json - | grep -E '"(verdict|differing)"'
>   "verdict": "pass",
>   "differing": 0,
# A machine as lockstep calibrate measured it.
$ lockstep plan free.yaml --machine "$SOURCE/tests/planner/calibrated.json" | head -n 1
> 4 tables on 2 ranks of 2 a host (measured)
# Bad calls.
$ lockstep plan
! lockstep: error: plan takes one scenario file
? 2
$ lockstep plan free.yaml --machine h10
! lockstep: error: no machine is called "h10"; did you mean "h100"?
? 2
$ printf 'preset: h100\nhbm_byte: 1 MB\n' > bad.yaml && lockstep plan free.yaml --machine ./bad.yaml
! ./bad.yaml:2:1: error: unknown key `hbm_byte`
!     2 | hbm_byte: 1 MB
!       | ^~~~~~~~
!       | did you mean "hbm_bytes"?
? 2
$ lockstep plan free.yaml --explain large_table
! lockstep: error: no table is called "large_table"; did you mean "large_table_0"?
? 2
# A scenario names a machine's file, inside its folder; what is wrong with it is told with its place.
$ printf 'preset: h200\nname: ours\nlaunch_us: 3\n' > ours.yaml && sed 's/^mesh:/machine: .\/ours.yaml\nmesh:/' open.yaml > own.yaml && lockstep plan own.yaml | head -n 1 && lockstep run own.yaml --quiet
> 4 tables on 2 ranks of 2 a host (ours)
> run: 1 passed, 0 failed, 0 skipped
$ sed 's/launch_us: 3/launch_us: -3/' ours.yaml > wrong.yaml && sed 's/ours.yaml/wrong.yaml/' own.yaml > own2.yaml && lockstep plan own2.yaml 2>&1 | sed "s#$PWD#HERE#g"
> own2.yaml:7:10: error: machine: HERE/wrong.yaml:3:12: error: expected a number from 0 to 1e+06
>     7 | machine: ./wrong.yaml
>       |          ^~~~~~~~~~~~
$ mkdir -p inner && sed 's/.\/ours.yaml/..\/ours.yaml/' own.yaml > inner/own.yaml && lockstep plan inner/own.yaml
! inner/own.yaml:7:10: error: machine: leaves the scenario's folder, which takes --allow-outside: ../ours.yaml
!     7 | machine: ../ours.yaml
!       |          ^~~~~~~~~~~~
!       | expected one of v100_torchrec, a100, h100, h200, or the path of a file in the scenario's folder
? 2
$ lockstep plan inner/own.yaml --allow-outside | head -n 1
> 4 tables on 2 ranks of 2 a host (ours)
$ sed 's/.\/ours.yaml/h20/' own.yaml > misspelt.yaml && lockstep run misspelt.yaml
! misspelt.yaml:7:10: error: machine: unknown: h20
!     7 | machine: h20
!       |          ^~~
!       | expected one of v100_torchrec, a100, h100, h200, or the path of a file in the scenario's folder
!       | did you mean "h200"?
? 2
# A plan file edited by hand: two tables of one name, another version, a plan of other tables; and no map at all.
$ (cat plan.yaml; sed -n '5,11p' plan.yaml) > twice.yaml && lockstep plan --diff plan.yaml twice.yaml
! twice.yaml:33:5: error: plan: two tables are called large_table_0
!    33 |   - name: "large_table_0"
!       |     ^
? 2
$ sed 's/lockstep_plan: 1/lockstep_plan: 2/' plan.yaml > version.yaml && lockstep plan --diff plan.yaml version.yaml
! version.yaml:1:16: error: expected 1
!     1 | lockstep_plan: 2
!       |                ^
? 2
$ sed 's/type: table_wise/plan: cut.plan.yaml/' free.yaml > other.yaml; lockstep run other.yaml --quiet 2>&1 | head -n 1; lockstep run other.yaml > /dev/null 2>&1
> other.yaml:13:22: error: table large_table_0: the plan ...cut.plan.yaml has no such table
? 2
$ printf '[]' > list.json && lockstep plan free.yaml --machine ./list.json
! ./list.json:1:1: error: expected keys and values
!     1 | []
!       | ^
? 2
$ lockstep plan --diff plan.yaml cut.plan.yaml
> large_table_0: only in the first
> large_table_1: only in the first
> small_table_0: only in the first
> small_table_1: only in the first
> large: only in the second
> small: only in the second
? 1
# No nodes, or no seconds, are the first plan, which is always the same. A time that is over before there
# is one is a time-out.
$ for limit in nodes seconds; do lockstep plan free.yaml --$limit 0 --json - | grep -E '"(verdict|stop|nodes|repeatable)"'; done
>   "verdict": "pass",
>   "stop": "nodes",
>   "nodes": 1,
>   "repeatable": true,
>   "verdict": "pass",
>   "stop": "nodes",
>   "nodes": 1,
>   "repeatable": true,
$ lockstep plan free.yaml --seconds 0.000001
! lockstep: error: plan: the time limit passed after listing the options of 0 of 4 tables on 2 ranks, before there was a plan
? 3
# A table that is not there.
$ lockstep plan free.yaml --explain large_tabel_0
! lockstep: error: no table is called "large_tabel_0"; did you mean "large_table_0"?
? 2
# A plan in TorchRec's form, which a scenario takes as its own: the same blocks on the same ranks.
$ lockstep plan free.yaml --machine v100_torchrec --torchrec torchrec.json --quiet; sed 's/sharding: {.*}/sharding: {plan: torchrec.json}/' free.yaml > theirs.yaml; grep -c torchrec.json theirs.yaml; lockstep show theirs.yaml > theirs.txt; sed 's/sharding: {.*}/sharding: {plan: plan.yaml}/' free.yaml > ours.yaml; lockstep show ours.yaml | diff - theirs.txt && lockstep run --quiet theirs.yaml
> 4
> run: 1 passed, 0 failed, 0 skipped
# The same for all tables by one option, costed: as the plan from which it was written.
$ lockstep plan free.yaml --machine v100_torchrec --from-torchrec torchrec.json --out taken.yaml --quiet && lockstep plan --diff plan.yaml taken.yaml
$ sed 's/free.yaml/&/; s/sharding: {.*}/sharding: {type: data_parallel}/' free.yaml > other_types.yaml; lockstep plan other_types.yaml --machine v100_torchrec --from-torchrec torchrec.json --out taken.yaml --quiet && lockstep plan --diff plan.yaml taken.yaml
# One of more tables than the scenario's, of fewer, and of another size.
$ python3 -c 'import json; p = json.load(open("torchrec.json")); p[""]["more"] = p[""]["large_table_0"]; json.dump(p, open("more.json", "w")); del p[""]["more"], p[""]["large_table_0"]; json.dump(p, open("fewer.json", "w"))'
$ lockstep plan free.yaml --from-torchrec more.json
! lockstep: error: the plan more.json has a table 'more', which free.yaml lacks
? 2
$ lockstep plan free.yaml --from-torchrec fewer.json
! lockstep: error: free.yaml:9: table large_table_0: the plan fewer.json has no such table
? 2
# A program that is about to run by it is told the same; what cannot be its plan ends before anything runs.
$ lockstep plan free.yaml --machine v100_torchrec --from-torchrec torchrec.json | head -2 > costs.txt; lockstep exec --torchrec-plan torchrec.json --tables free.yaml --machine v100_torchrec -- true 2> /dev/null | head -2 | diff - costs.txt && head -1 costs.txt
> 4 tables on 2 ranks of 2 a host (v100_torchrec)
$ lockstep exec -n 2 --torchrec-plan torchrec.json -- true 2> /dev/null | grep -E "^(4 tables|large_table_0)"
> 4 tables on 2 ranks of 2 a host (h100)
> large_table_0 table_wise        fused              0.00098409         4096        64        64      0.001  1
$ lockstep exec -n 1 --torchrec-plan torchrec.json -- touch ran; test -e ran || echo not run
> not run
! lockstep: error: torchrec.json: plan: table large_table_0: shard 0 is on rank 1, and ranks are 0 to 0
$ lockstep exec -n 2 --torchrec-plan fewer.json --tables free.yaml -- true
! lockstep: error: free.yaml:9: table large_table_0: the plan fewer.json has no such table
? 2
$ lockstep exec -n 3 --torchrec-plan torchrec.json --tables free.yaml -- true
! lockstep: error: free.yaml is for 2 ranks, the program has 3
? 2
$ lockstep exec --torchrec-plan torchrec.json -- true
! lockstep: error: --torchrec-plan needs -n RANKS, or --tables SCENARIO
? 2
$ lockstep exec -n 2 --torchrec-plan plan.yaml -- true
! lockstep: error: plan.yaml: not a plan of TorchRec's
? 2
$ lockstep exec -n 2 --tables free.yaml -- true
! lockstep: error: --tables requires --torchrec-plan FILE
? 2
# A plan whose ranks are others than its placements.
$ sed 's/rank:1/rank:0/' torchrec.json > two.json; sed 's/torchrec.json/two.json/' theirs.yaml > two.yaml; lockstep run --quiet two.yaml 2>&1 | sed "s#$PWD/##" | head -n 1; lockstep plan free.yaml --from-torchrec two.json
> two.yaml:13:22: error: plan: two.json: plan: module "", table large_table_0: ranks[0] is 1, but the shard is on rank 0
! lockstep: error: two.json: plan: module "", table large_table_0: ranks[0] is 1, but the shard is on rank 0
? 2
# A plan of another world, and one without the table.
$ sed 's/rank:1/rank:7/; s/"ranks"/"unused"/' torchrec.json > far.json; sed 's/torchrec.json/far.json/' theirs.yaml > far.yaml; lockstep run --quiet far.yaml 2>&1 | sed "s#$PWD/##" | head -n 3
> far.yaml:13:22: error: plan: far.json: plan: table large_table_0: shard 0 is on rank 7, and ranks are 0 to 1
>    13 |     sharding: {plan: far.json}
>       |                      ^~~~~~~~
$ sed 's/large_table_0/other/' torchrec.json > other.json; sed 's/torchrec.json/other.json/' theirs.yaml > other.yaml; lockstep run --quiet other.yaml 2>&1 | sed "s#$PWD/##"
> other.yaml:13:22: error: table large_table_0: the plan other.json has no such table
>    13 |     sharding: {plan: other.json}
>       |                      ^~~~~~~~~~
