import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tpack.step.hooked_session import HookedSession
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.train.loop import StepCounter, TrainLoop


def started():
    """Return a counter, its loop, a trainer and a hooked session that asks the counter."""
    loop = TrainLoop()
    counter = StepCounter(loop)
    trainer = FakeTrainer()
    counter.setup_graph(trainer)
    trainer.sess = tf.Session()
    trainer.sess.run(tf.global_variables_initializer())
    return counter, loop, trainer, HookedSession(trainer.sess, [counter])


def test_the_run_of_the_train_op_counts_the_step_once(graph):
    counter, loop, trainer, hooked = started()
    with trainer.sess:
        for expected in (1, 2, 3):
            hooked.run(trainer.train_op)
            hooked.run(trainer.train_op)
            assert loop.global_step == expected
            counter.finish_step()
            assert loop.global_step == expected == trainer.sess.run(get_global_step_var())


def test_a_step_without_the_train_op_is_counted_at_its_end(graph):
    counter, loop, trainer, hooked = started()
    with trainer.sess:
        hooked.run(trainer.global_step_var)
        assert loop.global_step == 0
        counter.finish_step()
        assert loop.global_step == 1 == trainer.sess.run(get_global_step_var())
