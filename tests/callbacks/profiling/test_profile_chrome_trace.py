import json

from tpack.callbacks.profiling.profile import chrome_trace_of
from tpack.callbacks.profiling.spans import Allocation, Span


def test_operations_that_run_at_once_get_threads_of_their_own():
    spans = [Span("a", "Add", "CPU:0", 0, 10), Span("b", "Mul", "CPU:0", 5, 8), Span("c", "Sub", "CPU:0", 8, 20)]
    other = Span("d", "Add", "CPU:1", 30, 40)
    steps = [("step 1", spans), ("step 2", [other])]
    memory = [[Allocation("cpu", "a", 1, 2_000_000), Allocation("cpu", "a", 9, -2_000_000)], []]
    events = json.loads(chrome_trace_of(steps, [(0, 3)], memory))["traceEvents"]

    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert list(processes.values()) == ["steps", "memory", "CPU:0", "CPU:1"]
    slices = [
        (processes[event["pid"]], event["tid"], event["name"], event["ts"], event["dur"])
        for event in events
        if event["ph"] == "X"
    ]
    assert slices == [
        ("steps", 0, "step 1", 0, 20),
        ("steps", 0, "step 2", 30, 10),
        ("steps", 1, "waits for data", 0, 3),
        ("CPU:0", 0, "Add", 0, 10),
        ("CPU:0", 1, "Mul", 5, 3),
        ("CPU:0", 1, "Sub", 8, 12),
        ("CPU:1", 0, "Add", 30, 10),
    ]
    assert [event["args"]["MB"] for event in events if event["ph"] == "C"] == [2.0, 0.0]
    assert {event["args"]["operation"] for event in events if event["ph"] == "X" and "args" in event} == set("abcd")
