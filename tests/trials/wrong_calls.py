"""Call tpack as users err: wrong types, misspelt names, swapped arguments, eager habits, wrong shapes, missing files.

    python -m tests.trials.wrong_calls [--only PART_OF_A_NAME] [--show]

Each call must raise an error of tpack's that says what came and what was expected, before it has written a file or
trained a step; a name that may come into being later must be a warning. It prints the calls that do not, with
``--show`` the errors of all, and ends with 1 if there are any.
`tests.trials.wrong_arguments` gives each parameter alone a wrong type.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow.compat.v1 as tf  # noqa: E402

from tests.helpers.combined_training import working_in  # noqa: E402
from tests.helpers.log_lines import captured_log  # noqa: E402
from tests.trials import wrong_calls_of_parts, wrong_calls_of_training  # noqa: E402
from tpack.errors import TpackError  # noqa: E402

CALLS: dict[str, Callable[[], Any]] = {**wrong_calls_of_training.CALLS, **wrong_calls_of_parts.CALLS}
WORDS = ("expected", "use ", "unexpected keyword", "missing", "must", "there is no", "near names", "no tensor")
WORDS += ("no variable", "none of the", "do not fit", "cannot be written", "No such file", "by batch_size", "has no")
WORDS += ("it has",)
WARNED = {
    "callback: MinSaver of an unknown statistic": "no statistic named",
    "weights: other names": "NOTHING IS RESTORED",
}
"""Calls that go on as tensorpack's do, or whose names may come into being later, and a part of what they log."""
EAGER = "the model is built once, as a graph"
STATE = (".index", ".npz", "stats.json", "run.json")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of a call's name")
    parser.add_argument("--show", action="store_true", help="print the errors of all")
    options = parser.parse_args()
    calls = {name: call for name, call in CALLS.items() if options.only in name}
    wrong = 0
    for name, call in calls.items():
        fault, text = outcome(name, call)
        wrong += bool(fault)
        if fault or options.show:
            print(f"{name}: {fault or 'refused'}: {text[:400]}", flush=True)
    print(f"{len(calls)} wrong calls: {len(calls) - wrong} refused in words, {wrong} not")
    return int(wrong > 0)


def outcome(name: str, call: Callable[[], Any]) -> tuple[str, str]:
    """Return the fault of a wrong call, empty if it is refused in words, and the words."""
    with (
        tempfile.TemporaryDirectory() as directory,
        working_in(Path(directory)),
        tf.Graph().as_default(),
        captured_log() as lines,
    ):
        try:
            value = call()
        except TpackError as error:
            text = " ".join(str(error).split())
            fault = "" if any(word in text for word in WORDS) else "WITHOUT ADVICE"
        except (TypeError, AttributeError, NotImplementedError) as error:
            text = str(error)
            is_told = "unexpected keyword" in text or "required" in text or EAGER in text
            fault = "" if is_told else type(error).__name__
        except Exception as error:
            text, fault = " ".join(str(error).split()), type(error).__name__
        else:
            told = [line for line in lines if name in WARNED and WARNED[name] in line]
            if told:
                return "", told[0]
            return "NOT REFUSED", repr(value)
        made = [str(each) for each in Path().rglob("*") if each.name.endswith(STATE) and each.read_bytes() != b"x"]
        return (f"WROTE {made}" if made and not fault else fault), text


if __name__ == "__main__":
    sys.exit(main())
