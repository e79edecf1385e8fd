"""Threads that work in the session of who started them."""

import sys
import threading

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.utils.concurrency import ShareSessionThread


def test_a_thread_runs_in_the_session(session8):
    seen = []

    def work():
        seen.append((tf.get_default_session(), tf.get_default_graph(), tf.constant(3).eval()))

    thread = ShareSessionThread(threading.Thread(target=work, name="worker", daemon=True))
    assert (thread.name, thread.daemon) == ("worker", True)
    thread.start()
    thread.join()
    assert seen == [(session8, session8.graph, 3)]


def test_subclasses_run_in_the_session(session8):
    class Mine(ShareSessionThread):
        def run_in_session(self):
            self.seen = tf.get_default_session()

    thread = Mine()
    thread.start()
    thread.join()
    assert thread.seen is session8


def test_a_subclass_with_a_run_of_its_own_asks_for_the_session(session8):
    class Mine(ShareSessionThread):
        def run(self):
            with self.default_sess() as session:
                self.seen = session, tf.get_default_session(), tf.constant(3).eval()

    thread = Mine()
    with pytest.raises(ConfigError, match="from its start on, and was not started"), thread.default_sess():
        pass
    thread.start()
    thread.join()
    assert thread.seen == (session8, session8, 3)


def test_no_session_and_no_thread_are_errors(graph, monkeypatch):
    thread = ShareSessionThread(threading.Thread(target=print))
    with pytest.raises(ConfigError, match="is to share the default session, and there is none"):
        thread.start()
    monkeypatch.delitem(sys.modules, "tensorflow")
    with pytest.raises(ConfigError, match="there is none"):
        thread.start()
    with pytest.raises(NotImplementedError, match="was given no thread"):
        ShareSessionThread().run_in_session()
