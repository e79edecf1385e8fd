"""Horovod's own tests of TensorFlow's graph mode on `tpack.horovod`, from a checkout of Horovod.

    python -m tests.trials.horovod_tests FOLDER [-n 2] [--only NAME ...] [--module test_tensorflow]

Each test of ``test/parallel/test_tensorflow.py`` runs in a graph of its own, in all workers of one job. Those on GPUs,
eager operations, functions and elastic states are not applicable, for the reasons that are printed.
"""

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import types
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

import tensorflow
import tensorflow.compat.v1 as tf

import tpack.horovod as hvd
from tpack.legacy.as_horovod import install_as_horovod

_NOT_APPLICABLE = {
    r"_gpu$|_gpu_|gpu_required|test_horovod_multiple_allreduce_cpu_gpu": "runs on GPUs",
    r"join_allreduce": "runs on GPUs; tests/horovod has one on CPUs",
    r"elastic": "elastic states; tpack launch --restarts has them in its own way",
    r"eager": "eager operations",
    r"syncbn": "a layer of Keras, for eager mode and tf.function",
    r"gradient_tape|partial_distributed": "a gradient tape, for eager mode",
    r"model_parallel": "a gradient tape, for eager mode",
}


def reason_not_to_run(name: str) -> str:
    """Return why a test is not applicable; "" if it is."""
    return next((reason for pattern, reason in _NOT_APPLICABLE.items() if re.search(pattern, name)), "")


def _in_worker(folder: Path, module_name: str, only: list[str], out: Path) -> None:
    """Run the tests in this worker, and write what came of each."""
    install_as_horovod()
    sys.path[:0] = [str(folder / "test" / "parallel"), str(folder / "test" / "utils")]
    for name, content in _stand_ins().items():
        sys.modules[name] = content
    hvd.init()
    # Their optimizers update variables of TensorFlow 1's older kind.
    tf.disable_resource_variables()
    hvd._executing_eagerly = tf.executing_eagerly
    hvd.util = sys.modules["horovod.tensorflow.util"]
    # The tests are decorated to run once in a graph and once eagerly.
    importlib.import_module("tensorflow.python.framework.test_util").run_in_graph_and_eager_modes = _as_it_is
    tests = importlib.import_module(module_name)
    # Names of TensorFlow 1, which the tests ask for in graph mode.
    for module in (tests, sys.modules["base_test_tensorflow"]):
        module.config, module.tf = tf.ConfigProto(), _BothTensorFlows("both")
    suite = unittest.defaultTestLoader.loadTestsFromModule(tests)
    cases = [case for each in suite for case in each]
    results: dict[str, list[str]] = {}
    for case in cases:
        name = case.id().rpartition(".")[2]
        if (only and name not in only) or reason_not_to_run(name) or name == "test_session":
            continue
        begin, result = time.monotonic(), unittest.TestResult()
        with tf.Graph().as_default():
            case.run(result)
        bad = [*result.failures, *result.errors]
        outcome = "failed" if bad else "skipped" if result.skipped else "passed"
        why = bad[0][1] if bad else result.skipped[0][1] if result.skipped else ""
        results[name] = [outcome, why, f"{time.monotonic() - begin:.1f}"]
        out.with_suffix(f".{hvd.rank()}").write_text(json.dumps(results))
        print(name, outcome, flush=True)


class _BothTensorFlows(types.ModuleType):
    """TensorFlow 2, with the names of TensorFlow 1 that it lacks, and its variables."""

    def __getattr__(self, name: str) -> Any:
        is_of_2 = hasattr(tensorflow, name) and name != "Variable"
        return getattr(tensorflow if is_of_2 else tensorflow.compat.v1, name)


def _as_it_is(function=None, **options):
    """Return what a decorator decorates."""
    return _as_it_is if function is None else function


def _stand_ins() -> dict[str, types.ModuleType]:
    """Return the helpers of Horovod's tests that need its native library."""
    util = types.ModuleType("horovod.tensorflow.util")
    util._executing_eagerly = tf.executing_eagerly
    common = types.ModuleType("common")
    common.mpi_env_rank_and_size = lambda: (int(os.environ["HOROVOD_RANK"]), int(os.environ["HOROVOD_SIZE"]))
    common.skip_or_fail_gpu_test = lambda test, message: test.skipTest(message)
    common.temppath = tempfile.TemporaryDirectory
    return {"horovod.tensorflow.util": util, "common": common}


def main() -> int:
    """Run the tests in workers, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-n", type=int, default=2)
    parser.add_argument("--module", default="test_tensorflow")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=1500)
    parser.add_argument("--out", type=Path, help="set for workers")
    given = parser.parse_args()
    if given.out is not None:
        hvd.init()
        os.environ |= {"HOROVOD_RANK": str(hvd.rank()), "HOROVOD_SIZE": str(hvd.size())}
        _in_worker(given.folder, given.module, given.only, given.out)
        return 0
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "results"
        command = [sys.executable, "-m", "tpack", "launch", "-n", str(given.n), "--log-dir", directory]
        command += ["--env", "HOROVOD_STALL_CHECK_TIME_SECONDS=20", "--env", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=60"]
        command += ["-m", "tests.trials.horovod_tests", str(given.folder), "--out", str(out), "--module", given.module]
        command += ["--only", *given.only] if given.only else []
        try:
            code = subprocess.run(command, timeout=given.seconds, check=False).returncode
        except subprocess.TimeoutExpired:
            code = -1
        of_ranks = [json.loads(out.with_suffix(f".{rank}").read_text()) for rank in range(given.n)]
    source = (given.folder / "test" / "parallel" / f"{given.module}.py").read_text()
    counts: Counter[str] = Counter()
    for name in re.findall(r"def (test_\w+)\(", source):
        if given.only and name not in given.only:
            continue
        reason = reason_not_to_run(name)
        told = [results.get(name, ["not run", "", "0"]) for results in of_ranks]
        outcomes = {outcome for outcome, _, _ in told}
        worst = next(each for each in ("failed", "not run", "skipped", "passed") if each in outcomes)
        outcome = "not applicable" if reason else worst
        counts[outcome] += 1
        why = reason or next((text.strip().splitlines()[-1] for _, text, _ in told if text), "")
        print(f"{outcome:15}{name}  {why}")
    print(f"exit code {code}; " + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 0 if code == 0 and not counts["failed"] and not counts["not run"] else 1


if __name__ == "__main__":
    sys.exit(main())
