import importlib.util

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.source import ROOT
from tpack.cli import reduce
from tpack.cli.main import main
from tpack.cli.reduce import _MODELS, _resnet50_shapes
from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.reduction.choose import by_measurement
from tpack.reduction.choose.by_measurement import MeasuredChoice
from tpack.reduction.choose.candidates import PACKINGS
from tpack.reduction.choose.measure import LIKELY_CANDIDATES, Measurement
from tpack.reduction.names import ALGORITHMS


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TPACK_CACHE", str(tmp_path))


@pytest.fixture
def asked(monkeypatch):
    """Answer without measuring, and keep what was asked for."""
    calls = []

    def choose(devices, shapes, dtypes, *, options, cache):
        calls.append((devices, shapes, dtypes, options, cache))
        return MeasuredChoice(RoundRobinReducer(), "it was the first", (Measurement("round_robin", (0.025,)),))

    monkeypatch.setattr(by_measurement, "choose_by_measurement", choose)
    return calls


def test_the_table_and_the_choice_are_printed(asked, capsys):
    assert main(["reduce", "--towers", "8", "--model", "resnet50"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[:3] == ["round_robin", "25.00", "1.00"]
    assert lines[-1] == "The choice is round_robin: it was the first."
    devices, shapes, dtype, options, cache = asked[0]
    assert (len(devices), len(shapes), dtype) == (8, 161, "float32")
    assert "xring+small" in options.candidates
    assert not cache._is_write_only


def test_help_names_what_the_reduction_has():
    shown = (reduce._ALGORITHMS, reduce._PACKINGS, reduce._LIKELY_CANDIDATES)
    assert shown == (ALGORITHMS, PACKINGS, LIKELY_CANDIDATES)


def test_options_reach_the_measurement(asked):
    arguments = ["--towers", "0,2", "--shapes", "784x10,10", "--dtype", "float16", "--steps", "2", "--rounds", "4"]
    assert main(["reduce", *arguments, "--timeout", "9", "--candidates", "nccl,xring+small", "--again"]) == 0
    devices, shapes, dtype, options, cache = asked[0]
    assert [device[-1] for device in devices] == ["0", "2"]
    assert (shapes, dtype) == (((784, 10), (10,)), "float16")
    assert (options.candidates, options.steps, options.rounds) == (("nccl", "xring+small"), 2, 4)
    assert options.timeout_secs == 9
    assert cache._is_write_only


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--towers", "many"], "--towers: wanted a number such as 8, or numbers such as 0,2,5, got 'many'"),
        (["--shapes", "3xx"], "--shapes: wanted shapes such as 784x10,10, got '3xx'"),
        (["--shapes", "3x-1"], "--shapes: wanted shapes such as 784x10,10, got '3x-1'"),
        (["--model", "alexnet"], "--model: invalid choice: 'alexnet'"),
        (["--model", "resnet50", "--shapes", "3"], "not allowed with argument --model"),
        (["--dtype", "int8"], "--dtype: invalid choice: 'int8'"),
        (["--steps", "two"], "--steps: invalid int value: 'two'"),
    ],
)
def test_arguments_that_cannot_be_read_are_refused(capsys, arguments, message):
    with pytest.raises(SystemExit) as exit_info:
        main(["reduce", *arguments])
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--towers", "1"], "wanted two towers or more"),
        (["--towers", "0"], "wanted at least one tower"),
        (["--towers", "1,1"], "wanted different GPU numbers"),
        (["--steps", "0"], "wanted steps to be positive, got 0"),
        (["--candidates", "sring"], "got 'sring'"),
    ],
)
def test_arguments_that_cannot_work_are_refused(capsys, arguments, message):
    assert main(["reduce", "--shapes", "3", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_it_measures(capsys):
    arguments = ["reduce", "--towers", "2", "--shapes", "20x5,5", "--steps", "1", "--candidates", "one_device"]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    assert "The choice is one_device: one_device is the fastest of 1 in a measurement" in first
    assert main(arguments) == 0
    assert "in an earlier measurement" in capsys.readouterr().out


def test_a_candidate_that_cannot_serve_is_in_the_table(capsys):
    arguments = ["reduce", "--towers", "2", "--shapes", "5", "--steps", "1", "--candidates", "one_device, nccl"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "nccl" in printed
    assert "NCCL needs each tower's gradient on a GPU of its own" in printed
    assert "The choice is one_device" in printed


def test_shapes_are_those_of_the_model(graph):
    spec = importlib.util.spec_from_file_location("resnet50", ROOT / "benchmarks" / "resnet50.py")
    resnet50 = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(resnet50)
    resnet50.logits(tf.placeholder(tf.float32, [1, 64, 64, 3]))
    assert list(_resnet50_shapes()) == [tuple(variable.shape.as_list()) for variable in tf.trainable_variables()]


def test_resnet50_has_161_gradients_of_25_million_elements():
    sizes = [tf.TensorShape(shape).num_elements() for shape in _MODELS["resnet50"]()]
    assert (len(sizes), sum(sizes)) == (161, 25557032)
