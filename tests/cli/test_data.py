"""``tpack data bench``: the flow of a script is found and measured, and what was measured is said in words."""

import re
import sys

import pytest

from tpack.cli.data import Stage, explain, load_flow
from tpack.cli.main import main
from tpack.dataflow.batch import BatchData
from tpack.dataflow.mapping import MapData
from tpack.dataflow.parallel.process_map import MultiProcessMapData
from tpack.dataflow.parallel.process_runner import MultiProcessRunner
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError

SCRIPT = """
from tpack.dataflow import BatchData, DataFromList, MapData

def same(point):
    return point

points = DataFromList([[k] for k in range(100)])
plain = [[1], [2]]
number = 3

def make(size=5):
    return BatchData(MapData(points, same), size)

def needs(size):
    return make(size)

if __name__ == "__main__":
    raise SystemExit("it trains")
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    """A script of a name of its own, so that none is found that another test imported."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"flows_{tmp_path.name}"
    path = tmp_path / f"{name}.py"
    path.write_text(SCRIPT)
    yield str(path)
    sys.modules.pop(name, None)


def test_a_table_of_stages_and_words_are_printed(script, capsys):
    assert main(["data", "bench", f"{script}:make", "--seconds", "0.01"]) == 0
    header, *rows, blank, rate, shares, hint = capsys.readouterr().out.splitlines()
    assert header.split() == ["stage", "points/s", "a", "point", "of", "it", "here"]
    assert [row.split("  ")[0] for row in rows] == [". . DataFromList", ". MapData(same)", "BatchData(5 points)"]
    assert rate.startswith("The flow gives ")
    assert "examples, a second: a step that takes less than" in rate
    assert shares.startswith("Of its time ")
    assert hint.startswith("All of it runs in one process: MultiProcessRunner(flow, num_prefetch=200, num_proc=")
    assert blank == ""


def test_flows_are_found_in_files_and_modules(script):
    assert len(load_flow(f"{script}:points")) == 100
    assert list(load_flow(f"{script}:plain")) == [[1], [2]]
    assert isinstance(load_flow("tests.helpers.flow_members:short"), DataFromList)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "expected SCRIPT:FLOW, such as train.py:make_flow"),
        ("{}:", "expected SCRIPT:FLOW, such as train.py:make_flow"),
        ("{}:other", "has no 'other'; it has the flows points"),
        ("{}:number", "number is not a data flow: as_dataflow got obj=3: expected an iterable"),
        ("{}:needs", "needs has the arguments size: expected defaults"),
        ("missing.py:flow", "flow got 'missing.py': expected a file"),
        ("no.such.module:flow", "no.such.module cannot be imported: No module named 'no'"),
    ],
)
def test_what_is_no_flow_is_refused(script, text, message):
    with pytest.raises(ConfigError, match=message):
        load_flow(text.format(script))


LIST = DataFromList([[k] for k in range(100)])


def stage(flow, secs, *, inner=(), taken=(), alone=None, workers=0):
    return Stage(flow, 0, inner, taken, secs, alone, workers)


def words(*stages, cores=4):
    return explain(stages, cores)


def test_time_is_shared_out_over_stages_in_one_process():
    mapped = MapData(LIST, abs)
    found = words(
        stage(LIST, 0.0001),
        stage(mapped, 0.003, inner=(0,), taken=(1.0,)),
        stage(BatchData(mapped, 10), 0.04, inner=(1,), taken=(10.0,)),
    )
    assert found[0].startswith("The flow gives 25.0 points, 250 examples, a second: a step that takes less than 40 ms")
    assert found[1] == "Of its time 72% goes into MapData(abs), 25% goes into BatchData(10 points)."
    assert "num_proc=4) would share it out" in found[2]


@pytest.mark.parametrize(
    ("seconds", "alone", "told"),
    [
        (
            0.0026,
            0.01,
            r"^4 processes of MultiProcessRunner\(4 processes\) give 3.8 .* cheaper work, of which MapData\(abs\) is",
        ),
        (0.005, 0.01, "give 2.0 times one, and could give 4: the rest goes into sending"),
        (0.02, 0.01, "gives less than one process without it, 100.0 a second: its points cost more to send"),
    ],
)
def test_workers_are_judged_by_what_they_could_give(seconds, alone, told):
    mapped = MapData(LIST, abs)
    runner = MultiProcessRunner(mapped, 10, 4)
    found = words(
        stage(LIST, 0.0001),
        stage(mapped, 0.01, inner=(0,), taken=(1.0,)),
        stage(runner, seconds, inner=(1,), taken=(1.0,), alone=alone, workers=4),
    )
    assert found[1] == "Of its time 100% goes into MultiProcessRunner(4 processes)."
    assert re.search(told, found[2])


def test_what_holds_workers_up_is_named():
    mapped = MultiProcessMapData(LIST, 2, abs)
    slow_source = words(stage(LIST, 0.01), stage(mapped, 0.0105, inner=(0,), taken=(1.0,), alone=0.011, workers=2))
    assert "wait for its source, which gives 100.0 a second in one process: let the source do less" in slow_source[2]
    few = words(stage(LIST, 0.001), stage(mapped, 0.006, inner=(0,), taken=(1.0,), alone=0.011, workers=2))
    assert few[2].endswith("give 1.8 times one, on 4 core(s): more of them are faster.")
    after = MapData(mapped, len)
    late = words(
        stage(LIST, 0.001),
        stage(mapped, 0.006, inner=(0,), taken=(1.0,), alone=0.011, workers=2),
        stage(after, 0.02, inner=(1,), taken=(1.0,)),
    )
    assert late[-1].startswith("MapData(len) runs after the workers, in the process that takes the points: put it")
