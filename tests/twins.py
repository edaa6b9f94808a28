"""Corrected versions of the scenarios of known bugs.

Such a version is NAME_clean.yaml if it differs in more than the injected defect; others are generated here, by removing the defect
(except:, faults:) and the expectation from NAME.yaml.
"""
import os
import re


def derive(text):
    # Top-level keys with what is indented below them.
    text = re.sub(r"^(?:faults|expect):.*\n(?:[ \t]+.*\n)*", "", text, flags=re.M)
    # Keys of a block mapping, likewise; then those of a flow mapping, up to the closing bracket.
    text = re.sub(r"^( +)except:.*\n(?:\1[ ]+.*\n|\1- .*\n)*", "", text, flags=re.M)
    while found := re.search(r",\s*except:\s*\[", text):
        end, depth = found.end(), 1
        while depth:
            depth += {"[": 1, "]": -1}.get(text[end], 0)
            end += 1
        text = text[:found.start()] + text[end:]
    return text


def clean_twin(path, folder):
    """The path of the corrected version of the bug in `path`, generated in `folder` if it is not stored."""
    kept = path[:-5] + "_clean.yaml"
    if os.path.exists(kept):
        return kept
    with open(path, encoding="utf-8") as file:
        text = file.read()
    twin = derive(text)
    if twin == text or re.search(r"^[^#\n]*\b(?:except|faults|expect):", twin, re.M):
        raise SystemExit(f"{path}: no twin can be made of it")
    made = os.path.join(folder, os.path.basename(kept))
    with open(made, "w", encoding="utf-8") as file:
        file.write(twin)
    return made
