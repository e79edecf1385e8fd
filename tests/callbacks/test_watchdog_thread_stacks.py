import threading

from tpack.callbacks.watchdog import _format_thread_stacks


def test_every_thread_is_shown_where_it_is_and_the_main_one_last():
    go_on, waiting = threading.Event(), threading.Event()

    def wait_in_a_named_function():
        waiting.set()
        go_on.wait()

    thread = threading.Thread(target=wait_in_a_named_function, name="the waiter", daemon=True)
    thread.start()
    waiting.wait()
    text = _format_thread_stacks()
    go_on.set()
    thread.join()
    before, _, main = text.rpartition("thread MainThread:\n")
    assert "daemon thread the waiter:\n" in before
    assert "in wait_in_a_named_function" in before
    assert "in test_every_thread_is_shown_where_it_is_and_the_main_one_last" in main


def test_threads_that_python_did_not_start_are_shown(monkeypatch):
    monkeypatch.setattr(threading, "enumerate", list)
    assert "a thread that Python did not start:" in _format_thread_stacks()
