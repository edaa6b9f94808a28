# The options that every command takes, where the commands' text and JSON are their own.
$ for c in run compare record replay plan show bench doctor; do for o in json junit report seed quiet color help; do lockstep $c --help | grep -q -e "--$o" || echo "$c lacks --$o"; done; done
$ lockstep doctor --junit - | python3 -c 'import sys, xml.etree.ElementTree as e; s = e.parse(sys.stdin).getroot()[0]; print(s.get("name"), s.get("failures"), [c.get("name") for c in s if c.get("classname") == "build"])'
> lockstep doctor 0 ['lockstep']
$ lockstep doctor --quiet --seed 3 --report d.html; grep -c '<h1>lockstep doctor' d.html
> 1
$ lockstep show "$SOURCE/scenarios/dtensor_example/row_wise_uneven.yaml" --json - --only table | python3 -c 'import sys, json; j = json.load(sys.stdin); print(j["command"], j["ranks"], [(b["rank"], b["offset"], b["size"]) for b in j["tensors"][0]["blocks"]])'
> show 4 [(0, [0, 0], [1, 16]), (1, [1, 0], [3, 16]), (2, [4, 0], [1, 16]), (3, [5, 0], [3, 16])]
$ lockstep show "$SOURCE/scenarios/dtensor_example/row_wise_uneven.yaml" --quiet --junit s.xml; grep -c '<testcase name="tensor' s.xml
> ...
$ lockstep show "$SOURCE/scenarios/dtensor_example/row_wise_uneven.yaml" --json - --junit -
! lockstep: error: two outputs go to '-'
? 2
$ lockstep show "$SOURCE/scenarios/dtensor_example/row_wise_uneven.yaml" --json - --svg -
! lockstep: error: two outputs go to '-'
? 2
$ lockstep plan "$SOURCE/scenarios/sharding_tutorial/mixed.yaml" --quiet --out a.plan --junit p.xml; grep -c 'failures="0"' p.xml
> 1
$ lockstep plan --diff a.plan a.plan --json - | python3 -c 'import sys, json; j = json.load(sys.stdin); print(j["verdict"], j["differing"])'
> pass 0
# A full disk is said, and nothing is left behind.
$ lockstep doctor --quiet --json /dev/full
! lockstep: error: cannot write '/dev/full': No space left on device
? 3
