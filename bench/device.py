"""Times an all-to-all kernel on 4 ranks x 4 blocks x 128 threads under many schedules: device.py BUILD [SCHEDULES]."""
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    build, schedules = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    bugs = os.path.join(HERE, "../tests/device/bugs")
    with tempfile.TemporaryDirectory() as folder:
        source = open(os.path.join(bugs, "receiving_block.cu"), encoding="utf-8").read()
        with open(f"{folder}/all.cu", "w", encoding="utf-8") as out:
            out.write(re.sub(r"<<<\d+, \d+,", "<<<4, 128,", source))
        subprocess.run([f"{build}/lockstep-cuda-cc", "-DCORRECT", "-I", bugs, f"{folder}/all.cu", "-o", f"{folder}/all"],
                       check=True)
        begun = time.monotonic()
        done = subprocess.run([f"{build}/lockstep", "spmd", "-n", "4", "--explore", str(schedules), f"{folder}/all"],
                              capture_output=True, text=True, check=False)
        print(f"{schedules} schedules of 4 ranks x 4 blocks x 128 threads: {time.monotonic() - begun:.1f} s")
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)


main()
