import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.run_op import RunOp
from tpack.callbacks.saver import ModelSaver
from tpack.graph_builder.model_desc import ModelDesc
from tpack.train.config import TrainConfig
from tpack.train.debug_options import one_epoch


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None, 2], tf.float32, "x")]


def test_nothing_of_the_config_happens_but_so_many_steps_and_it_stays_as_it_was():
    own, other = ModelSaver(), RunOp(tf.no_op)
    config = TrainConfig(
        model=Model(), dataflow=(np.ones([64, 2], np.float32),), batch_size=8, callbacks=[own], max_epoch=7
    )
    short = one_epoch(config, 3, [other])

    assert short.callbacks == [other]
    assert (short.extra_callbacks, short.monitors, short.check_cost) == ([], [], False)
    assert (short.starting_epoch, short.max_epoch, short.steps_per_epoch) == (1, 1, 3)
    assert (short.model, short.data) == (config.model, config.data)
    assert (config.callbacks, config.max_epoch, config.steps_per_epoch) == ([own], 7, 8)
    assert config.extra_callbacks
    assert config.monitors
