"""The process that measures one candidate, and what is said between it and the one that asks.

In a process that has trained already, page faults, pinned memory and threads of the past decide what is fast. So each
candidate has a fresh process. The request comes as JSON on standard input and the row goes back as the last line of
standard output. An error inside becomes a part of the row; what kills the process is the asking side's to report.

    python -m tpack.reduction.choose.measuring_process < request.json
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import TpackError
from tpack.reduction.choose.candidates import make_candidate
from tpack.reduction.measured_step import measure_here
from tpack.reduction.measurement import Measurement
from tpack.reduction.workload import Workload


def answer(request: Mapping[str, Any]) -> Measurement:
    """Measure what a request asks for; an error that the candidate raises is in the row.

    Args:
        request: ``candidate``, ``workload`` (see `Workload.as_json`), ``steps``, ``rounds``, and ``session_config``,
            a serialized ``ConfigProto`` in hexadecimal digits.
    """
    name = request["candidate"]
    workload = Workload.from_json(request["workload"])
    config = tf.ConfigProto.FromString(bytes.fromhex(request["session_config"]))
    try:
        reducer = make_candidate(name, workload.devices)
        return measure_here(
            name, reducer, workload, steps=request["steps"], rounds=request["rounds"], session_config=config
        )
    except (TpackError, tf.errors.OpError) as error:
        return Measurement(name, error=f"{type(error).__name__}: {str(error).splitlines()[0]}")


def main() -> None:
    """Answer the request on standard input."""
    row = answer(json.load(sys.stdin))
    sys.stdout.write("\n" + json.dumps(row.as_json()) + "\n")


if __name__ == "__main__":
    main()
