"""Every entry of CTest has a label, and no TIMEOUT of its own: CMakePresets.json has the limits, for the busiest machine. entries.py CTEST
BUILD.
"""
import json
import subprocess
import sys

listing = subprocess.run([sys.argv[1], "--test-dir", sys.argv[2], "--show-only=json-v1"],
                         check=True, capture_output=True).stdout
tests = json.loads(listing)["tests"]
assert tests, "no tests are registered"
bad = 0
for test in tests:
    names = {entry["name"] for entry in test.get("properties", [])}
    if "LABELS" not in names or "TIMEOUT" in names:
        print(f"{test['name']}: has no label, or a TIMEOUT of its own")
        bad = 1
print(f"{len(tests)} tests")
sys.exit(bad)
