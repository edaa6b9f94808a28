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
