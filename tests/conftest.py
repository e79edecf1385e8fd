"""Fixtures for all tests, and the check that no test leaves anything behind.

TensorFlow is imported by the fixtures that need it, not by this file: a test of a module that works without TensorFlow
does not wait for it.
"""

import faulthandler
import functools
import gc
import importlib
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

from tests.helpers.fake_nvml import FakeNVML, two_gpus
from tests.helpers.leaks import Snapshot, mark, new_marker
from tests.helpers.run_times import RunTimes
from tools.select_tests import is_core
from tpack.utils import logger

# Read by TensorFlow at its first import. Several workers share the cores of one machine, so each gets small pools.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "2")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "2")
# Without oneDNN, no gradient with the channels first runs on a CPU; it is the default on those with AVX-512 alone.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def pytest_configure(config: pytest.Config) -> None:
    """Mark what this process makes, and listen to Ctrl-C, which a shell tells programs in the background to ignore."""
    mark(new_marker())
    config.pluginmanager.register(RunTimes(), "run_times")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Keep the tests and the modules they load, which stay for ever, away from the garbage collector.

    They are more than a million objects, and a collection that looks at all of them takes more than a second.
    """
    gc.collect()
    gc.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test with its ring, and refuse an address in its name: each process would know it by another name."""
    if re.search(r"0x[0-9a-f]{6}", item.nodeid):
        raise pytest.UsageError(f"the name of a test holds an address: {item.nodeid}; expected ids= for its parameters")
    item.add_marker("core" if is_core(item.nodeid.partition("::")[0]) else "annex")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Refuse a module that turns eager execution off when it is imported: later ones make tensors when they are."""
    report = yield
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None and not tensorflow.executing_eagerly():
        raise pytest.UsageError(
            f"{collector.nodeid} turns eager execution off when it is imported: expected names of tpack.tf1, which "
            "makes a graph at their first use, inside of functions"
        )
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Limit the time of what a test leaves to be done: pytest's own limit ends where the test fails."""
    limit_secs = float(item.config.getini("faulthandler_timeout"))
    faulthandler.dump_traceback_later(limit_secs, exit=True, file=item.config.stash[fault_handler_stderr_fd_key])
    return (yield)


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Fail a test that leaves a child process, a non-daemon thread, a listening socket or shared memory behind."""
    before = Snapshot.take()
    yield
    leaks = before.leaks()
    if leaks:
        pytest.fail("the test left behind: " + "; ".join(leaks), pytrace=False)


class _NoEnd:
    """Writes down when a signal would end the process, and lets it live."""

    def __init__(self, calls: list[str], signum: int) -> None:
        self._calls = calls
        self._calls.append(signal.Signals(signum).name)

    def hurry(self, signum: int) -> None:
        """Write down that the end was to come soon."""
        self._calls.append(f"hurry {signal.Signals(signum).name}")

    def cancel(self) -> None:
        """Write down that the process was to live."""
        self._calls.append("cancel")


@pytest.fixture(autouse=True)
def no_end() -> Iterator[list[str]]:
    """Keep signals that a test sends to its own process from ending it, seconds later, in the middle of another test.

    A training that SIGTERM ended leaves the next signal to the kernel, so handlers come back too. The value is what
    would have been done about the end of the process.
    """
    calls: list[str] = []
    handlers = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}
    interruption = sys.modules.get("tpack.train.interruption")
    # By hand: with monkeypatch, what a test patched would still be patched when it is looked for leaks.
    with pytest.MonkeyPatch.context() as patch:
        if interruption is not None:
            patch.setattr(interruption, "_End", functools.partial(_NoEnd, calls))
        yield calls
    for signum, handler in handlers.items():
        signal.signal(signum, handler)


@pytest.fixture(autouse=True)
def no_default_graph() -> Iterator[None]:
    """Let the next test execute eagerly, after one that built as a script of TensorFlow 1 does."""
    yield
    default_graph = sys.modules.get("tpack.tf1.default_graph")
    if default_graph is not None:
        default_graph.leave_default_graph()


@pytest.fixture
def graph() -> Iterator[Any]:
    """A fresh graph, the default one during the test."""
    tf = importlib.import_module("tensorflow.compat.v1")
    with tf.Graph().as_default() as fresh:
        yield fresh


@pytest.fixture
def session8(graph: Any) -> Iterator[Any]:
    """A session on the fixture `graph` with eight logical CPU devices, the default one during the test."""
    sessions = importlib.import_module("tests.helpers.sessions")
    with sessions.cpu_session(graph) as session:
        yield session


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator of random numbers that gives the same numbers in every run."""
    return np.random.default_rng(20160916)


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNVML:
    """NVIDIA's library with two GPUs, all of them visible."""
    library = two_gpus()
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return library


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Messages of the log and its warnings; nothing is written."""
    said: list[str] = []
    monkeypatch.setattr(logger, "info", said.append)
    monkeypatch.setattr(logger, "warning", said.append)
    return said


@pytest.fixture
def log_dir(tmp_path: Path) -> Iterator[Path]:
    """A temporary directory that the logger writes to during the test."""
    logger = importlib.import_module("tpack.utils.logger")
    directory = tmp_path / "log"
    logger.set_logger_dir(str(directory))
    yield directory
    logger.close_logger_dir()
