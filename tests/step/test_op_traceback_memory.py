"""A step that lacks memory says which tensors were the largest, which lines made them, and what to try."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.step.hooked_session import HookedSession
from tpack.step.op_traceback import with_allocations
from tpack.tuning import batch_size

FIRST = """OOM when allocating tensor with shape[7] and type float on /device:GPU:0 by allocator GPU_0_bfc
\t [[{{node tower3/large}}]]
Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to \
RunOptions for current allocation info. This isn't available when running in Eager mode.
"""
LISTED = """OOM when allocating tensor with shape[7]

Current usage from device: /job:localhost/replica:0/task:0/device:GPU:0, allocator: GPU_0_bfc
  1.50GiB from tower0/large
  512.0MiB from tower3/small
  512.0MiB from tower3/small
  12.0KiB from gradients/unknown
Remaining 3 nodes with 17B
"""


def error_of(message):
    return tf.errors.ResourceExhaustedError(None, None, message)


def report(graph, again):
    with tf.name_scope("tower0"):
        tf.exp(1.0, name="large")
        tf.sin(1.0, name="small")
    return with_allocations(error_of(FIRST), graph, again).message


def test_the_largest_tensors_come_with_their_lines(graph):
    options = []

    def again(given):
        options.append(given)
        raise error_of(LISTED)

    lines = report(graph, again).splitlines()
    assert options[0].report_tensor_allocations_upon_oom
    assert lines[0].startswith("OOM when allocating tensor with shape[7] and type float")
    assert lines[2] == "The largest tensors at that time:"
    # Those of one operation are added, and a copy in a tower has the line of the original.
    assert lines[3].startswith("  1,536.0 MiB: tower0/large was made in ")
    assert 'tf.exp(1.0, name="large")' in lines[3]
    assert lines[4].startswith("  1,024.0 MiB: tower3/small was made in ")
    assert 'tf.sin(1.0, name="small")' in lines[4]
    assert lines[5] == "  0.0 MiB: gradients/unknown"
    assert lines[6].startswith("What to try: a smaller batch (find_batch_size")
    assert len(lines) == 7


def test_another_end_of_the_second_run_does_not_matter(graph):
    def fail(options):
        raise tf.errors.OutOfRangeError(None, None, "no more data")

    for again in (None, fail, lambda options: None):
        with tf.Graph().as_default() as other:
            lines = report(other, again).splitlines()
        assert [line.partition(":")[0] for line in lines] == [
            "OOM when allocating tensor with shape[7] and type float on /device",
            "\t [[{{node tower3/large}}]]",
            "What to try",
        ]


def test_a_step_that_finds_no_memory_is_run_again(graph):
    """TensorFlow waits for 10 s for other operations to free some, in each of the two runs."""
    large = tf.tile(tf.fill([1, 1000], 1.0), [tf.placeholder_with_default(5000, []), 1])
    rows = tf.placeholder(tf.int64, [])
    with tf.control_dependencies([large]):
        too_large = tf.fill([rows, 10**8], 3.0)
    # It is needed until then.
    with tf.control_dependencies([too_large]):
        cost = tf.reduce_sum(large)
    exhausted = pytest.raises(tf.errors.ResourceExhaustedError)
    with cpu_session(graph, num_cpus=1, rewrites=False) as session, exhausted as caught:
        HookedSession(session, []).run(cost, {rows: 10**5})
    text = caught.value.message
    assert "too_large = tf.fill([rows, 10**8], 3.0)" in text
    # What TensorFlow lists of a CPU is little.
    assert "The largest tensors at that time:" in text
    assert "What to try" in text
    # The search for a batch shows the first line.
    assert batch_size._lack_of_memory(caught.value).startswith("OOM when allocating tensor")
