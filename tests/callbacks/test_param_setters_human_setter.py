from types import SimpleNamespace

import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.hyper_param import ObjAttrParam
from tpack.callbacks.param_setters import HumanHyperParamSetter
from tpack.errors import CallbackError


def train(path, texts, **options):
    """Train an epoch for each text, which is the file's content from then on; return what each epoch reported."""
    target = SimpleNamespace(rate=1.0)
    texts = list(texts)

    def write(callback):
        if texts:
            path.write_bytes(texts.pop(0).encode("latin-1"))

    callbacks = [
        CallbackFactory(before_train=write, trigger=write),
        HumanHyperParamSetter(ObjAttrParam(target, "rate"), **options),
    ]
    return FakeTrainer().train(callbacks, epochs=(1, len(texts))).recorder.values("rate")


def test_values_are_read_from_the_file(graph, log_dir):
    texts = ["", "rate: 0.5", "other: 3\nrate : 1e-3 \n", "rate: 1\nrate: 2", "other: 3"]
    assert train(log_dir / "hyper.txt", texts) == [1.0, 0.5, 1e-3, 2.0, 2.0]


def test_a_file_that_is_not_there_changes_nothing(graph, log_dir):
    target = SimpleNamespace(rate=1.0)
    FakeTrainer().train([HumanHyperParamSetter(ObjAttrParam(target, "rate"))])
    assert target.rate == 1.0


def test_another_file_may_be_given(graph, tmp_path):
    assert train(tmp_path / "mine.txt", ["rate: 4"], file_name=str(tmp_path / "mine.txt")) == [4.0]


def test_what_cannot_be_read_is_told_and_changes_nothing(graph, log_dir):
    with captured_log() as lines:
        assert train(log_dir / "hyper.txt", ["rate: fast", "\xff"]) == [1.0, 1.0]
    assert any("lines of the form 'name: value', got 'rate: fast'" in line for line in lines)
    assert any("HumanHyperParamSetter(rate) cannot read" in line for line in lines)


def test_without_a_directory_there_is_an_error(graph):
    setter = HumanHyperParamSetter(ObjAttrParam(SimpleNamespace(rate=1.0), "rate"))
    with pytest.raises(CallbackError, match="file_name='hyper.txt': expected an absolute path, or a logger directory"):
        setter.setup_graph(FakeTrainer())
