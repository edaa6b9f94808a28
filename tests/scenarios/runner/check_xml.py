"""The JUnit and HTML reports are well-formed and contain the results, whatever the names."""
import subprocess
import sys
import xml.etree.ElementTree as ElementTree


def report(kind):
    return subprocess.run([sys.argv[1], kind], check=True, capture_output=True).stdout


suites = ElementTree.fromstring(report("junit"))
suite = suites.find("testsuite")
counts = [int(suite.get(key)) for key in ("tests", "failures", "errors", "skipped")]
assert counts == [5, 1, 1, 1], counts
cases = suite.findall("testcase")
hostile = "<b a=\"1\">&'\ufffd\ufffd[31m\ufffd\ufffd\ufffd\ufffd \u00e9]]>\n\tend"
assert cases[1].get("name") == hostile, ascii(cases[1].get("name"))
assert cases[1].get("classname") == "dir/<x>&.yaml"
failure = cases[1].find("failure")
assert failure.get("type") == "wrong"
assert failure.get("message") == "collective.op_mismatch"
assert "sample 3, id 7" in failure.text and "reproduce: lockstep" in failure.text
assert cases[2].find("error").get("message") == "rank 3: <no> memory"
assert cases[4].find("skipped").get("message") == 'needs "nccl"'
for passed in (cases[0], cases[3]):
    assert len(passed) == 0

html = report("html").decode()
page = ElementTree.fromstring(html.replace("<!DOCTYPE html>", ""))
text = "".join(page.itertext())
assert "2 passed, 2 failed, 1 skipped" in text
assert "sample 3, id 7" in text and 'needs "nccl"' in text
for outside in ("http:", "https:", "<script", "src="):
    assert outside not in html, outside
