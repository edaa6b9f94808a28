# Uneven row blocks of a table.
$ lockstep show "$SOURCE/scenarios/sharded_embedding/row_wise.yaml"
> table weight: 10 x 17, row_wise
>            columns 0-16
>          +--------------+
> rows 0-2 | rank 0       |
>          +--------------+
> rows 3-5 | rank 1       |
>          +--------------+
> rows 6-8 | rank 2       |
>          +--------------+
>    row 9 | rank 3       |
>          +--------------+
# Several tables, one of them on every rank.
$ lockstep show "$SOURCE/scenarios/sharding_tutorial/mixed.yaml" --only small_table_1
> table small_table_1: 1024 x 64, data_parallel
>               columns 0-63
>             +--------------+
> rows 0-1023 | all ranks    |
>             +--------------+
# A table of quantised rows, with what they take.
$ lockstep show "$SOURCE/scenarios/inference/shard_then_quantise.yaml" --only grid | head -1
> table grid: 90 x 16, grid, int8 rows of 2880 bytes in all
# A tensor with explicit sizes.
$ lockstep show "$SOURCE/scenarios/dtensor_example/row_wise_uneven.yaml"
> tensor table: [8, 16], S(0, sizes)
>        0-15
>      +--------+
>    0 | rank 0 |
>      +--------+
>  1-3 | rank 1 |
>      +--------+
>    4 | rank 2 |
>      +--------+
>  5-7 | rank 3 |
>      +--------+
>
> redistributions, by PyTorch's cost model (4 ranks a host):
>   line 16: tensor table, [8, 16] f32, from S(0, sizes) to S(0)
>     no cost: a layout has listed blocks, sizes, strides or turns
# The redistributions of a program, with what they cost in order and at the cheapest.
$ lockstep show "$SOURCE/scenarios/dtensor_example/cheapest_path.yaml" | tail -10
>     dtensor      10.396 us  all_reduce along device, local along host, local along device
>     cheapest      8.449 us  local along host, reduce_scatter along device
>   line 13: tensor sums, [64, 48] f32, from R, P(sum) to S(0), S(0)
>     in_order     16.996 us  reduce_scatter along device, all_gather along device, local along host, local along device
>     dtensor      10.396 us  all_reduce along device, local along host, local along device
>     cheapest      8.449 us  local along host, reduce_scatter along device (runs)
>   line 14: tensor rows, [64, 48] f32, from S(0), S(1) to S(1), S(0)
>     in_order     26.309 us  all_to_all along device, all_gather along device, all_to_all along host, local along device
>     dtensor      17.897 us  all_gather along device, all_to_all along host, local along device
>     cheapest     17.799 us  all_gather along host, all_to_all along device, local along host (runs)
$ lockstep show "$SOURCE/scenarios/dtensor_example/cheapest_path.yaml" --json - | grep -c '"path": "cheapest"'
> 2
# A program that ends early says why its list ends.
$ lockstep plan "$SOURCE/scenarios/bugs/shards_of_another_cut.yaml" | sed "s#$SOURCE/##"
> the program ends early, later redistributions are not listed: scenarios/bugs/shards_of_another_cut.yaml:14: step 0_place: rank 1 has 1 of dimension 0; its placements require 2
# A program without redistributions has nothing to plan.
$ lockstep plan "$SOURCE/scenarios/dtensor_example/every_collective.yaml" | sed "s#$SOURCE/##"
! lockstep: error: $SOURCE/scenarios/dtensor_example/every_collective.yaml: no table to place and no redistribution
# SVG on stdout, and nothing else there.
$ lockstep show "$SOURCE/scenarios/sharding_tutorial/mixed.yaml" --svg - | python3 -c 'import sys, xml.etree.ElementTree as e; print(e.parse(sys.stdin).getroot().tag)'
> {http://www.w3.org/2000/svg}svg
$ lockstep show "$SOURCE/scenarios/sharding_tutorial/mixed.yaml" --svg m.svg >/dev/null; ls
> m.svg
# What is not there is said.
$ lockstep show "$SOURCE/scenarios/sharding_tutorial/mixed.yaml" --only large
! lockstep: error: the scenario has no table and no tensor named large
? 2
$ lockstep show missing.yaml
! missing.yaml: error: cannot open 'missing.yaml': No such file or directory
? 2
$ lockstep show
! lockstep: error: an argument is missing: FILE
! usage: lockstep show [options] FILE
! 'lockstep show --help' lists the options
? 2
$ lockstep show "$SOURCE/scenarios/dtensor_example/every_collective.yaml"
! lockstep: error: the scenario has no table and no tensor
? 5
