"""What is told of steps, from spans that are made by hand."""

import re

import pytest

from tpack.callbacks.profiling.report import Roles, TracedRun, as_text, ready_shares, step_times
from tpack.callbacks.profiling.spans import MemoryPeak, Span

ROLES = Roles(data={"dequeue", "dequeue_1"}, staging={"stage", "fetch"})


def run(*parts, num_steps=1, secs=100e-6, fed_secs=0.0):
    """Return a run of operations: name, kind, begin and end in microseconds, and the device."""
    spans = [Span(name, kind, device, begin, end) for name, kind, begin, end, device in parts]
    return TracedRun(spans, num_steps, secs, fed_secs)


def micros(secs):
    return round(1e6 * secs)


def test_a_step_waits_until_the_last_tower_has_data():
    traced = run(
        ("dequeue", "QueueDequeueV2", 0, 30, "CPU:0"),
        ("matmul", "MatMul", 30, 50, "CPU:0"),
        ("dequeue_1", "QueueDequeueV2", 30, 60, "CPU:0"),
        ("matmul_1", "MatMul", 60, 80, "CPU:1"),
    )
    times = step_times([traced], ROLES)
    assert (micros(times.waiting), micros(times.computing), micros(times.python)) == (60, 20, 20)
    assert {device: micros(secs) for device, secs in times.busy.items()} == {"CPU:0": 20, "CPU:1": 20}
    assert times.verdict == "steps wait 60 % of their time for data: more workers, or cheaper augmentation"


def test_staging_beside_a_step_is_waited_for_only_when_nothing_computes_any_more():
    early = [("fetch", "QueueDequeueV2", 0, 60, "CPU:0"), ("matmul", "MatMul", 0, 70, "CPU:0")]
    late = [("fetch", "QueueDequeueV2", 0, 90, "CPU:0"), ("matmul", "MatMul", 0, 70, "CPU:0")]
    waits_to_be_copied = ("edge_1_fetch", "_Recv", 0, 90, "GPU:0")
    assert micros(step_times([run(*early)], ROLES).waiting) == 0
    assert micros(step_times([run(*late)], ROLES).waiting) == 20
    assert micros(step_times([run(*late, waits_to_be_copied)], ROLES).waiting) == 20


def test_what_python_feeds_is_waited_for_outside_of_the_graph():
    traced = run(("matmul", "MatMul", 0, 10, "CPU:0"), fed_secs=70e-6)
    times = step_times([traced], Roles())
    assert (micros(times.waiting), micros(times.computing), micros(times.python)) == (70, 10, 20)


def test_python_is_told_by_steps_that_are_not_traced():
    traced = [run(("matmul", "MatMul", 0, 10, "CPU:0"), secs=secs) for secs in (500e-6, 90e-6, 80e-6)]
    times = step_times(traced, Roles(), [300e-6, 40e-6, 30e-6])
    assert (micros(times.total), micros(times.python), micros(times.plain)) == (40, 30, 40)
    assert "more than they compute for Python between two runs" in times.verdict


def test_several_steps_of_a_run_share_its_time():
    traced = run(("matmul", "MatMul", 0, 20, "CPU:0"), ("matmul", "MatMul", 40, 60, "CPU:0"), num_steps=2)
    times = step_times([traced], Roles())
    assert (micros(times.total), micros(times.computing)) == (50, 30)
    assert [(item.name, item.runs, micros(item.secs)) for item in times.kinds] == [("MatMul", 1.0, 20)]
    assert times.verdict == "steps wait 0 % of their time for data: the input keeps up"


def test_results_are_ready_when_the_last_of_their_operations_ends_after_the_data_are_there():
    parts = [
        ("dequeue", "QueueDequeueV2", 0, 20, "CPU:0"),
        ("first", "MatMul", 20, 70, "CPU:0"),
        ("second", "MatMul", 70, 95, "CPU:0"),
        ("update", "ResourceApplyAdam", 95, 120, "CPU:0"),
    ]
    causes = {"a": {"first"}, "b": {"first", "second"}, "c": {"pruned"}, "d": {"dequeue"}}
    shares = ready_shares([run(*parts), run(*parts[:2], parts[3]), run(*parts), run()], ROLES, causes)
    assert shares == {"a": 0.5, "b": 0.75, "d": 0.0}


def test_the_text_has_all_of_it():
    long_name = "tower0/" * 20 + "conv"
    traced = run(("dequeue", "QueueDequeueV2", 0, 5, "CPU:0"), (long_name, "Conv2D", 5, 95, "GPU:0"))
    peak = MemoryPeak("GPU_0_bfc", 25_000_000, long_name, [(long_name, 20_000_000), ("b", 5_000)])
    text = as_text(step_times([traced], ROLES), [peak], (10, 15))
    assert text.startswith("Profile of steps 10 to 15: steps wait 5 % of their time for data: the input keeps up.\n")
    for line in ("GPU:0 busy +0.090 +90 %", r"Conv2D +GPU:0 +1 +0.090 +90 %", "GPU_0_bfc: most at once +25.0 MB +at"):
        assert any(re.match(line, part) for part in text.splitlines()), line
    assert "5.0 kB  b" in text
    assert max(map(len, text.splitlines())) <= 120
    assert "dequeue" not in text


@pytest.mark.parametrize("secs", [0.0, 1.0])
def test_a_run_without_operations_is_no_error(secs):
    assert step_times([run(secs=secs)], Roles()).waiting_ratio == 0
