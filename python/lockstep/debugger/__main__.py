"""python3 DEBUGGER FRONTEND [WORDS] COMMAND...: runs a frontend with the command line of `lockstep exec` that it starts."""

import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main():
    face, words = sys.argv[1], sys.argv[2:]
    if face == "prompt":
        from lockstep.debugger.hub import Hub
        from lockstep.debugger.prompt import Prompt

        return Prompt(Hub(words, entry=True)).run()
    if face == "core":
        from lockstep.debugger.core import Core

        return Core(words[0], words[1:]).run()
    if face == "dap":
        from lockstep.debugger import dap

        return dap.serve(words[0], None if words[1] == "-" else int(words[1]))
    if face == "postmortem":
        from lockstep.debugger.postmortem import PostMortem
        from lockstep.debugger.prompt import Prompt

        try:
            return Prompt(PostMortem(words[0])).run()
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            print(f"lockstep gdb: {words[0]} is not a post-mortem: {error}", file=sys.stderr)
            return 2
    raise SystemExit(f"lockstep: there is no debugger frontend {face}")


sys.exit(main())
