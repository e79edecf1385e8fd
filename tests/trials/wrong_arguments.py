"""Give every public class and function every argument that it cannot take, and print what is not refused in words.

    python -m tests.trials.wrong_arguments [--only PART_OF_A_MODULE]

A wrong argument is refused in words if an error of tpack names the argument and prints no data. It ends with 1 if one
is not and has no reason in `tests.test_public_names_wrong_arguments`.
"""

import argparse
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tests.helpers.wrong_arguments import cases_of, members, outcome  # noqa: E402
from tests.test_public_names_wrong_arguments import reason  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a part of the name of the modules to try, such as tpack.callbacks")
    options = parser.parse_args()
    tried = refused = listed = 0
    for key, (module, member) in sorted(members().items()):
        for case in cases_of(key, module, member) if options.only in module else ():
            tried += 1
            if reason(case):
                listed += 1
                continue
            what = outcome(case, member)
            refused += what is None
            if what is not None:
                print(f"{case}: {what[:200]}", flush=True)
    print(
        f"{tried} wrong arguments: {refused} refused in words, {listed} with a reason, {tried - refused - listed} not"
    )
    return int(tried != refused + listed)


if __name__ == "__main__":
    sys.exit(main())
