import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.toy_training import Line, line_input, points
from tpack.callbacks.base import CallbackFactory
from tpack.dataflow.sources import DataFromGenerator, DataFromList
from tpack.errors import ConfigError
from tpack.tfutils.sesscreate import NewSessionCreator
from tpack.tfutils.sessinit import JustCurrentSession
from tpack.train.config import TrainConfig


def config(**kwargs):
    return TrainConfig(**{"model": Line(), "dataflow": DataFromList(points()), **kwargs})


def endless():
    while True:
        yield points()[0]


def test_defaults_are_filled_in():
    made = config()
    assert (made.steps_per_epoch, made.starting_epoch, made.starting_step, made.max_epoch) == (8, 1, 0, 99999)
    assert isinstance(made.session_creator, NewSessionCreator)
    assert isinstance(made.session_init, JustCurrentSession)
    assert made.callbacks == []
    assert [type(callback).__name__ for callback in made.monitors] == ["TFEventWriter", "JSONWriter", "ScalarPrinter"]
    assert len(made.extra_callbacks) == 4


def test_what_is_given_is_kept():
    callback, creator = CallbackFactory(), NewSessionCreator()
    made = config(
        dataflow=None,
        data=line_input(size=5),
        callbacks=[callback],
        extra_callbacks=[],
        monitors=[],
        session_creator=creator,
        max_epoch=3,
    )
    assert (made.callbacks, made.extra_callbacks, made.monitors) == ([callback], [], [])
    assert made.session_creator is creator
    assert made.steps_per_epoch == 5


def test_a_session_config_reaches_the_session_creator():
    session_config = tf.ConfigProto(intra_op_parallelism_threads=1)
    assert config(session_config=session_config).session_creator.config is session_config


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"model": 3}, "TrainConfig got model=3: expected a ModelDescBase"),
        ({"dataflow": 1}, r"^the data are 1: expected a DataFlow, arrays such as \(x, y\), a list"),
        ({"dataflow": (np.ones(3),)}, "their rows are examples: say how many .* by batch_size"),
        ({"batch_size": 0}, "batch_size=0: expected an integer of at least 1"),
        ({"dataflow": None, "data": line_input(), "batch_size": 2}, "TensorInput makes batches"),
        ({"dataflow": None, "data": [1]}, "^TrainConfig got data="),
        ({"dataflow": None}, "got both or neither"),
        ({"data": line_input()}, "got both or neither"),
        ({"session_init": "model-1"}, "^TrainConfig got session_init="),
        ({"session_config": {}}, "^TrainConfig got session_config="),
        ({"session_creator": NewSessionCreator(), "session_config": tf.ConfigProto()}, "use the config of the creator"),
        ({"callbacks": CallbackFactory()}, "callbacks=a CallbackFactory: expected a list of Callback"),
        ({"callbacks": [3]}, r"callbacks\[0\]=3: expected a Callback"),
        ({"monitors": [CallbackFactory()]}, r"monitors\[0\]=a CallbackFactory: expected a MonitorBase"),
        ({"steps_per_epoch": 0}, "steps_per_epoch=0: expected an integer of at least 1"),
        ({"session_creator": 5}, "TrainConfig got session_creator=5: expected an object with create_session"),
        ({"session_creator": NewSessionCreator}, "session_creator=the class NewSessionCreator: expected an object"),
        ({"starting_epoch": 5, "max_epoch": 4}, "starting_epoch=5: expected at most max_epoch=4"),
        ({"dataflow": DataFromGenerator(lambda: iter(()))}, "DataFromGenerator does not know its size"),
        ({"dataflow": endless}, "no steps_per_epoch, and a generator function does not know its size"),
        ({"dataflow": endless, "batch_size": 2}, "no steps_per_epoch, and a generator function does not know its size"),
        ({"dataflow": None, "data": line_input(size=None)}, "TensorInput does not know its size"),
    ],
)
def test_bad_arguments_are_errors(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        config(**kwargs)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("epochs", "max_epoch"), ("batch", "batch_size"), ("logdir", "log_dir"), ("calbacks", "callbacks")],
)
def test_an_argument_of_another_name_is_told_what_can_be_meant(name, meant):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}': did you mean {meant}") as caught:
        config(**{name: 3})
    assert caught.value.__context__ is None
    with pytest.raises(TypeError, match="unexpected keyword argument 'qqqq'$"):
        config(qqqq=3)


def test_a_callback_twice_is_an_error_before_any_graph_exists():
    callback = CallbackFactory()
    with pytest.raises(ConfigError, match="CallbackFactory.* twice: expected another object"):
        config(callbacks=[callback], extra_callbacks=[callback])


def test_examples_are_dealt_out_to_the_towers():
    made = TrainConfig(model=Line(), dataflow=(np.ones([10, 3]), np.ones(10)), batch_size=4)
    assert made.steps_per_epoch == 2
    made.fit_to_towers(2)
    assert (made.dataflow.batch_size, made.steps_per_epoch) == (2, 2)
    with pytest.raises(ConfigError, match="batch_size got 4, .* expected a multiple of 3"):
        made.fit_to_towers(3)


def test_examples_are_those_of_all_workers():
    made = TrainConfig(model=Line(), dataflow=(np.ones([16, 3]), np.ones(16)), batch_size=8)
    made.num_workers = 2
    made.fit_to_towers(2)
    assert made.dataflow.batch_size == 2


def test_whole_floats_are_numbers_of_epochs_and_steps():
    made = config(steps_per_epoch=500.0, starting_epoch=2.0, max_epoch=8.0 * 9 // 5)
    assert (made.steps_per_epoch, made.starting_epoch, made.max_epoch) == (500, 2, 14)
    assert type(made.max_epoch) is int
    with pytest.raises(ConfigError, match=r"TrainConfig got max_epoch=2\.5: expected an integer"):
        config(max_epoch=2.5)
