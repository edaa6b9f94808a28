"""Runs the steps of the CI recipe for GitHub that come after its build, in a folder of their own, and
compares the commands of the other recipes with them: recipes.py PROGRAMS SOURCE [--python=PYTHON]

The scenario and the recording are small ones of a user's. Without a Python that has torch and pytest
the pytest step is left out.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.dom.minidom

PROGRAMS, SOURCE = (os.path.abspath(path) for path in sys.argv[1:3])
PYTHON = sys.argv[3].partition("=")[2] if len(sys.argv) > 3 else ""
RECIPES = os.path.join(SOURCE, "examples/ci")
SCENARIO = "scenarios/sharded_embedding/row_wise.yaml"


def read(name):
    with open(os.path.join(RECIPES, name), encoding="utf-8") as stream:
        return stream.read()


def steps(text):
    """(name, command) of the steps of one line each."""
    return re.findall(r"- name: (\w+)\n(?: +if: .*\n)? +run: (lockstep .*)\n", text)


def has(*modules):
    look = f"import importlib.util as u; raise SystemExit(not all(map(u.find_spec, {modules})))"
    return PYTHON and subprocess.run([PYTHON, "-c", look], check=False).returncode == 0


def run(command, folder, environment):
    return subprocess.run(["bash", "-eo", "pipefail", "-c", command], cwd=folder, text=True,
                          env=environment, capture_output=True, check=False)


def main():
    every = steps(read("github.yml"))
    assert [name for name, _ in every] == ["scenarios", "pytest", "replay"], every
    for recipe in ("gitlab.yml", "Jenkinsfile"):
        for _, command in every:
            assert command in read(recipe), (recipe, command)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.path.join(RECIPES, "tests"), os.path.join(folder, "tests"))
        os.mkdir(os.path.join(folder, "bin"))
        if PYTHON:
            with open(os.path.join(folder, "bin/python3"), "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\nexec {PYTHON} \"$@\"\n")
            os.chmod(os.path.join(folder, "bin/python3"), 0o755)
        environment = dict(os.environ, SCENARIOS="mine.yaml", RECORDINGS="kept", PATH=os.pathsep.join(
            [os.path.join(folder, "bin"), PROGRAMS, os.environ["PATH"]]))
        shutil.copy(os.path.join(SOURCE, SCENARIO), os.path.join(folder, "mine.yaml"))
        made = run("lockstep record --backend sim --out kept mine.yaml", folder, environment)
        assert made.returncode == 0, made
        for name, command in every:
            if name == "pytest" and not has("torch", "pytest"):
                print("pytest: left out, no Python with torch and pytest")
                continue
            done = run(command, folder, environment)
            assert done.returncode == 0, (name, done)
            for report in re.findall(r"[\w.]+\.xml", command):
                xml.dom.minidom.parse(os.path.join(folder, report))
            for report in re.findall(r"[\w.]+\.html", command):
                assert os.path.getsize(os.path.join(folder, report)) > 1000, report
        # A finding fails the step.
        with open(os.path.join(folder, "mine.yaml"), "w", encoding="utf-8") as file:
            file.write("lockstep: 1\nname: m\nmesh: {shape: [2]}\nprogram:\n  steps:\n"
                       "    - all_reduce: {count: 4, except: [{ranks: [1], op: max}]}\n")
        done = run(every[0][1], folder, environment)
        assert done.returncode == 1, done
    print(f"{len(every)} steps")


main()
