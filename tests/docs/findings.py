"""The page of findings, its examples and `lockstep explain`: findings.py PROGRAM SOURCE

Every finding has one section, in the order of the program's list, and every section has a finding. A scenario that a section names expects
that section's finding.
"""
import json
import re
import subprocess
import sys
import tempfile

program, source = sys.argv[1:]


def explain(*arguments):
    return subprocess.run([program, "explain", *arguments], text=True, capture_output=True,
                          check=True).stdout


def main():
    with open(source + "/docs/findings.md", encoding="utf-8") as stream:
        parts = re.split(r"^## (.*)\n", stream.read(), flags=re.M)[1:]
    sections = dict(zip(parts[::2], (text.strip("\n") for text in parts[1::2])))
    names = [line.split()[0] for line in explain().splitlines()]
    assert names and names == parts[::2], set(names) ^ set(parts[::2])
    rows = json.loads(explain("--json", "-"))["findings"]
    assert [row["name"] for row in rows] == names
    for row in rows:
        name = row["name"]
        text = explain(name)
        assert text == f"{name}: {row['summary']}\n\n{sections[name]}\n", name
        assert text == row["text"], name
        assert "Fix:" in text, f"{name}: no fix"
        for scenario in re.findall(r"scenarios/\S+\.yaml", text):
            with open(f"{source}/{scenario}", encoding="utf-8") as stream:
                assert re.search(rf"finding: {re.escape(name)}\b", stream.read()), (name, scenario)
            subprocess.run([program, "run", "--quiet", f"{source}/{scenario}"], check=True)
    check_reports()


def check_reports():
    """The command that a report names for a finding explains it, in every format of the report."""
    text = "lockstep: 1\nname: f\nmesh: {shape: [2]}\nprogram:\n  steps:\n" \
           "    - all_reduce: {count: 4, except: [{ranks: [1], op: max}]}\n"
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/f.yaml", "w", encoding="utf-8") as stream:
            stream.write(text)
        run = subprocess.run([program, "run", "f.yaml", "--json", "f.json", "--junit", "f.xml",
                              "--report", "f.html"], text=True, capture_output=True, cwd=folder,
                             check=False)
        assert run.returncode == 1, run
        reports = [run.stdout]
        for name in ("f.xml", "f.html", "f.json"):
            with open(f"{folder}/{name}", encoding="utf-8") as stream:
                reports.append(stream.read())
    for report in reports:
        commands = set(re.findall(r"lockstep explain ([\w.]+)", report))
        assert commands == {"collective.op_mismatch"}, (commands, report)
    assert explain(*commands).startswith("collective.op_mismatch: ")


main()
