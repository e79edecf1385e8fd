import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.keras_models import made
from tpack.compat.runtime import eager_mode
from tpack.errors import ConfigError, GraphBuildError
from tpack.keras.cloning import ModelMaker

SPECS = [tf.TensorSpec([None, 4], tf.float32, "x")]


def test_clones_begin_with_the_weights_that_the_model_had():
    model = made()
    maker = ModelMaker(model)
    wanted = model.get_weights()
    with eager_mode():
        model.set_weights([np.zeros_like(weight) for weight in wanted])
        clones = [maker.make(SPECS) for _ in range(2)]
    assert clones[0] is not clones[1]
    for clone in clones:
        assert all(map(np.array_equal, clone.get_weights(), wanted))


def test_a_function_gets_tensors_of_the_inputs_if_it_takes_any():
    def with_input(x):
        return keras.Model(x, keras.layers.Dense(2)(x))

    def without():
        return keras.Sequential([keras.Input([4]), keras.layers.Dense(2)])

    with eager_mode():
        assert [ModelMaker(source).make(SPECS).output_shape for source in (with_input, without)] == [(None, 2)] * 2
        with pytest.raises(GraphBuildError, match="returned 3: expected a keras.Model"):
            ModelMaker(lambda: 3).make(SPECS)


def test_what_is_no_model_is_refused():
    with pytest.raises(ConfigError, match="KerasModel got model=3"):
        ModelMaker(3)
    with eager_mode():
        unbuilt = keras.Sequential([keras.layers.Dense(2)])
    with pytest.raises(ConfigError, match="without weights: expected a model"):
        ModelMaker(unbuilt)
