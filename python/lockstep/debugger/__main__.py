"""python3 DEBUGGER FACE [WORDS] COMMAND...: a face, and the command line of `lockstep exec` that it starts."""

import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main():
    face, words = sys.argv[1], sys.argv[2:]
    if face == "prompt":
        from lockstep.debugger.prompt import Prompt

        return Prompt(words).run()
    raise SystemExit(f"lockstep: no debugger has the face {face}")


sys.exit(main())
