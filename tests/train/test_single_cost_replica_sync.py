import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks.base import Callback
from tpack.train.single_cost import ReplicaSync


def test_copies_follow_by_the_first_step_whatever_the_order_of_callbacks(graph):
    main, copy = (tf.get_variable(name, initializer=0.0) for name in ("main", "copy"))
    value = tf.identity(copy)
    seen = []

    class Change(Callback):
        def _before_train(self):
            main.load(1.0, self.trainer.sess)

        def _before_run(self, ctx):
            return value

        def _after_run(self, ctx, values):
            seen.append(values.results)

        def _trigger_epoch(self):
            main.load(self.epoch_num + 1.0, self.trainer.sess)

    sync = ReplicaSync(tf.assign(copy, main.read_value()).op)
    FakeTrainer().train([sync, Change()], epochs=(1, 3), steps_per_epoch=1)
    assert seen == [1.0, 2.0, 3.0]
    assert not sync.chief_only
