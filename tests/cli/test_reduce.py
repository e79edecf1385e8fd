import importlib.util
import re
import sys

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.source import ROOT
from tpack.cli import reduce
from tpack.cli.main import main
from tpack.cli.reduce import MODELS, _resnet50_shapes
from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.reduction.autotune import autotune, worker
from tpack.reduction.autotune.autotune import MeasuredChoice
from tpack.reduction.autotune.candidates import PACKINGS
from tpack.reduction.autotune.measure import LIKELY_CANDIDATES, Measurement
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

    monkeypatch.setattr(autotune, "choose_by_measurement", choose)
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
    shown = (reduce._ALGORITHMS, reduce._PACKINGS, tuple(reduce._LIKELY_CANDIDATES.split(",")))
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
        (["--towers", "many"], "--towers: expected a number such as 8, or numbers such as 0,2,5, got 'many'"),
        (["--shapes", "3xx"], "--shapes: expected shapes such as 784x10,10, got '3xx'"),
        (["--shapes", "3x-1"], "--shapes: expected shapes such as 784x10,10, got '3x-1'"),
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
        (["--towers", "1"], "--towers got 1: expected at least two"),
        (["--towers", "0"], "expected at least one tower"),
        (["--towers", "1,1"], "expected different GPU numbers"),
        (["--steps", "0"], "MeasuringOptions got steps=0: expected a number greater than 0"),
        (["--candidates", "sring"], "got algorithm='sring'"),
    ],
)
def test_arguments_that_cannot_work_are_refused(capsys, arguments, message):
    assert main(["reduce", "--shapes", "3", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_it_measures_and_a_candidate_that_cannot_serve_is_in_the_table(capsys):
    arguments = ["reduce", "--towers", "2", "--shapes", "20x5,5", "--steps", "1", "--candidates", "one_device, nccl"]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    assert re.search("The choice is one_device: one_device is the fastest of .* in a measurement", first)
    assert "its own for each tower" in first
    assert main(arguments) == 0
    assert "in an earlier measurement" in capsys.readouterr().out


def test_shapes_are_those_of_the_model(graph):
    spec = importlib.util.spec_from_file_location("resnet50", ROOT / "benchmarks" / "resnet50.py")
    resnet50 = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(resnet50)
    resnet50.logits(tf.placeholder(tf.float32, [1, 64, 64, 3]))
    assert list(_resnet50_shapes()) == [tuple(variable.shape.as_list()) for variable in tf.trainable_variables()]


def test_resnet50_has_161_gradients_of_25_million_elements():
    sizes = [tf.TensorShape(shape).num_elements() for shape in MODELS["resnet50"]()]
    assert (len(sizes), sum(sizes)) == (161, 25557032)


@pytest.fixture
def own_module(monkeypatch, tmp_path):
    """A module of the user's own, in the directory where the command runs."""
    source = (
        "from tpack.reduction import ReducerWrapper, RoundRobinReducer\n"
        "class Half(ReducerWrapper):\n"
        "    def __init__(self):\n"
        "        super().__init__(RoundRobinReducer(), 'half')\n"
        "    def reduce_dense(self, columns, op):\n"
        "        return super().reduce_dense([[grad / 2 for grad in column] for column in columns], op)\n"
        "def exact():\n"
        "    return RoundRobinReducer()\n"
        "def needs(rate):\n"
        "    return rate\n"
        "def number():\n"
        "    return 5\n"
    )
    (tmp_path / "own_module.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    yield
    sys.modules.pop("own_module", None)


def test_a_reducer_of_the_users_own_stands_in_the_table(own_module, monkeypatch, capsys):
    def measure_here(name, workload, options):
        request = {"candidate": name, "workload": workload.as_json(), "steps": options.steps, "rounds": options.rounds}
        return worker.answer({**request, "session_config": options.config_digits})

    monkeypatch.setattr(autotune, "measure_candidate", measure_here)
    arguments = ["--towers", "2", "--shapes", "20x5,5", "--steps", "1", "--candidates", "one_device"]
    assert main(["reduce", *arguments, "--reducer", "own_module:Half", "--reducer", "own_module:exact"]) == 0
    printed = capsys.readouterr().out
    rows = {line.split()[0]: line for line in printed.splitlines() if line}
    assert rows["own_module:Half"].split()[-1] == "50%"
    assert "%" not in rows["own_module:exact"]
    assert "the fastest of the 2 that give right values" in printed
    assert "The choice is half" not in printed


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_module", "got the reducer 'own_module': expected module:Class"),
        ("own_modul:Half", "'own_modul:Half' cannot be found: No module named 'own_modul'"),
        ("own_module:Halves", "module 'own_module' has no attribute 'Halves'"),
        ("own_module:needs", "cannot be called without arguments"),
        ("own_module:number", "expected 'own_module:number' to give a tpack.reduction.Reducer, got int"),
    ],
)
def test_reducers_that_cannot_be_found_are_refused(own_module, capsys, name, message):
    assert main(["reduce", "--towers", "2", "--shapes", "3", "--reducer", name]) == 2
    assert message in capsys.readouterr().err
