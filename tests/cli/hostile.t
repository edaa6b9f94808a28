# A file that a scenario names is unusable: exit 2, its place in the scenario, and nothing written.
$ printf 'lockstep: 1\nname: t\nmesh: {shape: [2]}\ntables:\n  - {name: p, rows: 4, dim: 2, pooling: sum, features: [p], weights: {file: w.npy}, sharding: {type: row_wise}}\ninputs:\n  batch: 2\n  features:\n    p: {lengths: {uniform: [0, 5]}, ids: {zipf: 1.05}}\n' > f.yaml; printf 'no array' > w.npy; lockstep run --quiet f.yaml --json j.json; code=$?; test ! -e j.json; echo $code $?
> 2 0
! f.yaml:5:77: error: weights: '...w.npy' is not a .npy file
! ...
# So is a pipe that nobody writes, as weights and as the scenario: nothing waits.
$ rm w.npy; mkfifo w.npy p.yaml; timeout 20 lockstep run --quiet f.yaml
! f.yaml:5:77: error: file: not a regular file: w.npy
!     5 |   - {name: p, rows: 4, dim: 2, pooling: sum, features: [p], weights: {file: w.npy}, sharding: {type: row_wise}}
!       |                                                                             ^~~~~
!       | expected the path of a file in the scenario's folder
? 2
$ timeout 20 lockstep run p.yaml
! p.yaml: error: 'p.yaml' is not a regular file
? 2
# A folder whose manifest is none fails, naming it; one that holds no recording at all: nothing ran.
$ rm w.npy p.yaml; mkdir e; mkfifo e/manifest.json; timeout 20 lockstep replay e | grep error:
>   error: 'e/manifest.json' is not a regular file
$ rm e/manifest.json; lockstep replay e
> replay: 0 passed, 0 failed, 0 skipped
? 5
