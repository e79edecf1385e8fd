"""Spans, allocations and intervals, by hand."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.callbacks.profiling.spans import (
    Allocation,
    length,
    memory_peaks,
    merged,
    read_allocations,
    read_spans,
    without,
)

CPU = "/job:localhost/replica:0/task:0/device:CPU:1"


def stats(devices):
    """Return step stats of {device: [(name, label, start, begin, end)]}."""
    proto = tf.RunMetadata().step_stats
    for device, nodes in devices.items():
        part = proto.dev_stats.add(device=device)
        for name, label, start, begin, end in nodes:
            part.node_stats.add(
                node_name=name,
                timeline_label=label,
                all_start_micros=start,
                op_start_rel_micros=begin,
                op_end_rel_micros=end,
            )
    return proto


def test_spans_say_what_ran_where_and_when():
    proto = stats({CPU: [("b", "b = MatMul(a, c)", 100, 5, 30), ("step/a", "[x 3MB] step/a = Const()", 90, 0, 2)]})
    first, second = read_spans(proto, lambda name: name.removeprefix("step/"))
    assert (first.operation, first.kind, first.device, first.begin, first.end) == ("a", "Const", "CPU:1", 90, 92)
    assert (second.operation, second.kind, second.begin, second.end) == ("b", "MatMul", 105, 130)


def test_a_kernel_on_a_stream_is_counted_once():
    gpu = "/job:localhost/replica:0/task:0/device:GPU:0"
    kernel = ("b:MatMul", "sgemm_128", 100, 0, 10)
    proto = stats({gpu: [("b", "b = MatMul(a)", 90, 0, 2)]})
    proto.MergeFrom(stats({"/device:GPU:0/stream:all": [kernel], "/device:GPU:0/stream:7": [kernel]}))
    assert [(span.device, span.operation, span.kind) for span in read_spans(proto)] == [
        ("GPU:0", "b", "MatMul"),
        ("GPU:0 kernels", "b", "MatMul"),
    ]


def test_waiting_for_another_device_is_told_from_work():
    spans = read_spans(stats({CPU: [("edge_3_x", "edge_3_x = _Recv()", 0, 0, 9), ("x", "x = Add(a, b)", 9, 0, 1)]}))
    assert [span.is_transfer for span in spans] == [True, False]


@pytest.mark.parametrize("seed", range(5))
def test_intervals_are_those_of_a_mask(seed):
    rng = np.random.default_rng(seed)
    drawn = [[(int(b), int(b + d)) for b, d in rng.integers(0, 12, [6, 2])] for _ in range(2)]
    masks = []
    for intervals in drawn:
        mask = np.zeros(30, bool)
        for begin, end in intervals:
            mask[begin:end] = True
        masks.append(mask)
    first, second = map(merged, drawn)
    assert length(first) == masks[0].sum()
    left = without(first, second)
    assert length(left) == (masks[0] & ~masks[1]).sum()
    assert all(masks[0][b:e].all() and not masks[1][b:e].any() for b, e in left)


def test_the_peak_is_what_was_held_at_once_and_by_whom():
    taken = [("cpu", "a", 1, 10), ("cpu", "b", 2, 30), ("gpu", "c", 3, 5), ("cpu", "a", 4, -10), ("cpu", "d", 5, 15)]
    peaks = memory_peaks(Allocation(*item) for item in taken)
    assert [(peak.allocator, peak.size_bytes, peak.operation) for peak in peaks] == [("cpu", 45, "d"), ("gpu", 5, "c")]
    assert peaks[0].holders == [("b", 30), ("d", 15)]


def test_what_tensorflow_records_is_read(graph):
    with tf.device("/device:CPU:0"):
        big = tf.random.uniform([1000, 10], name="big")
        total = tf.reduce_sum(big, name="total")
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(total, options=options, run_metadata=metadata)
    kinds = {span.operation: span.kind for span in read_spans(metadata.step_stats)}
    assert kinds["big/RandomUniform" if "big/RandomUniform" in kinds else "big"] in ("RandomUniform", "Mul", "AddV2")
    (peak, *_) = memory_peaks(read_allocations(metadata.step_stats))
    assert peak.size_bytes >= 40000
    assert peak.holders[0][0].startswith("big")
