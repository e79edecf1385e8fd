"""A program with worker processes, for tests that kill it.

    python -m tests.helpers.runner_program [hang]

It prints the numbers of its workers once data points have come from them, and then goes on for ever; with ``hang`` the
workers then compute without end in the middle of a data point.
"""

import json
import sys

import numpy as np

from tests.helpers.leaks import mark
from tpack.dataflow.parallel.process_map import MultiProcessMapData
from tpack.dataflow.parallel.process_runner import MultiProcessRunnerZMQ
from tpack.dataflow.sources import DataFromGenerator


def points(hangs):
    """Yield large arrays."""
    for k in range(10**9):
        while hangs and k == 30:
            pass
        yield [np.full(200_000, k % 256, np.uint8)]


def main() -> None:
    mark()
    hangs = "hang" in sys.argv
    flows = [
        MultiProcessRunnerZMQ(DataFromGenerator(lambda: points(hangs)), 2, hwm=4),
        MultiProcessMapData(DataFromGenerator(lambda: points(False)), 2, lambda point: point, buffer_size=8),
    ]
    for ds in flows:
        ds.reset_state()
    iterators = [iter(ds) for ds in flows]
    for _ in range(20):
        kept = [next(points) for points in iterators]
    print(json.dumps([pid for ds in flows for pid in ds._workers.group().pids]), flush=True)
    while True:
        kept = [next(points) for points in iterators]
        del kept


if __name__ == "__main__":
    main()
