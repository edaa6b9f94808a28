"""python -m lockstep.rules: only the driver, as `lockstep prove --rules` starts it."""

import argparse
import sys

from lockstep.rules import tables

USAGE, NO_MODULE = 2, 4  # exit codes, as in cli/rules.c


def main():
    parser = argparse.ArgumentParser(prog="python -m lockstep.rules")
    parser.add_argument("subject", choices=["dtensor", "torchrec"])
    parser.add_argument("--only")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", required=True)
    parser.add_argument("--summary")
    parser.add_argument("--against")
    parser.add_argument("--programs")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--progress", action="store_true")
    options = vars(parser.parse_args())
    given = tables.opened(options)
    try:
        from torch.distributed import tensor  # noqa: F401
        if options["subject"] == "torchrec":
            from lockstep.rules import torchrec_case  # noqa: F401
    except ImportError as error:
        print(f"lockstep prove --rules: {error}; name an interpreter that has it with --python", file=sys.stderr)
        sys.exit(NO_MODULE)
    from lockstep.rules import driver, work

    work.quiet()
    return driver.run(options, given)


try:
    sys.exit(main())
except tables.BadTable as error:
    print(f"lockstep prove: {error}", file=sys.stderr)
    sys.exit(USAGE)
