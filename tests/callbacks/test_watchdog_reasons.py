import threading

import tensorflow.compat.v1 as tf

from tpack.callbacks.watchdog import _format_thread_stacks, _QueueState, _WaitingOps


def test_an_empty_queue_that_the_step_takes_from_is_what_it_waits_for(session8):
    with tf.device("/cpu:2"):
        queue = tf.queue.FIFOQueue(4, [tf.float32], [[]], name="numbers")
    full = tf.queue.RandomShuffleQueue(4, 0, [tf.float32], [[]], name="full")
    tf.queue.FIFOQueue(4, [tf.float32], [[]], name="unused")
    step = queue.dequeue(name="take") + full.dequeue(name="take_other")
    queue.dequeue(name="drain")
    waiting = _WaitingOps(session8.graph, [step])
    session8.run(full.enqueue_many([[1.0, 2.0]]))

    states = waiting.ask(session8)
    assert {state.name: state for state in states} == {
        "numbers": _QueueState("numbers", 0, ("take",)),
        "full": _QueueState("full", 2, ("take_other",)),
        "unused": _QueueState("unused", 0, ()),
    }
    assert waiting.explain(states) == "operation take waits for data: queue numbers is empty"
    session8.run(queue.enqueue(1.0))
    assert (
        waiting.explain(waiting.ask(session8)) == "no operation of the step is known to wait, see where the threads are"
    )


def test_who_takes_for_the_step_through_something_else_is_named_too(session8):
    queue = tf.queue.FIFOQueue(4, [tf.float32], [[]], name="numbers")
    queue.dequeue(name="stage")
    states = _WaitingOps(session8.graph, [tf.no_op()]).ask(session8)
    assert states == [_QueueState("numbers", 0, ("stage",))]


def test_other_operations_that_may_wait_are_named(session8):
    element = tf.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next("element")
    called = tf.py_func(abs, [element], tf.int64, name="call")
    waiting = _WaitingOps(session8.graph, [called])
    assert waiting.ask(session8) == []
    assert waiting.explain([]) == "these operations may wait: call (PyFunc), element (IteratorGetNext)"


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
    assert "a thread of another library:" in _format_thread_stacks()
