import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.toy_training import Recorder
from tpack.callbacks.base import Callback, CallbackFactory
from tpack.callbacks.monitors.table_writer import JSONWriter
from tpack.errors import CallbackError, ConfigError, DeviceError, GraphBuildError, StopTraining
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tfutils.sesscreate import NewSessionCreator, ReuseSessionCreator
from tpack.train.trainer import Trainer


class Counting(Trainer):
    """Adds one to a variable at each step."""

    executor = "pool"

    def __init__(self):
        super().__init__()
        self.counter = tf.get_variable("counter", initializer=0.0)
        self.train_op = tf.assign_add(self.counter, 1.0).op


def run(trainer, callbacks=(), steps_per_epoch=2, max_epoch=2, **kwargs):
    trainer.train_with_defaults(
        callbacks=list(callbacks),
        extra_callbacks=[],
        monitors=[],
        steps_per_epoch=steps_per_epoch,
        max_epoch=max_epoch,
        **kwargs,
    )


def test_hooks_are_called_in_order_with_the_right_counters():
    recorder = Recorder()
    run(Counting(), [recorder])
    assert recorder.calls == [
        ("setup_graph",),
        ("before_train", 0, 0, 0),
        ("before_epoch", 1, 0, 0),
        ("before_run", 1, 0, 0),
        ("after_run", 1, 1, 1),
        ("trigger_step", 1, 1, 1),
        ("before_run", 1, 1, 1),
        ("after_run", 1, 2, 2),
        ("trigger_step", 1, 2, 2),
        ("after_epoch", 1, 2, 2),
        ("trigger_epoch", 1, 2, 2),
        ("before_epoch", 2, 0, 2),
        ("before_run", 2, 0, 2),
        ("after_run", 2, 1, 3),
        ("trigger_step", 2, 1, 3),
        ("before_run", 2, 1, 3),
        ("after_run", 2, 2, 4),
        ("trigger_step", 2, 2, 4),
        ("after_epoch", 2, 2, 4),
        ("trigger_epoch", 2, 2, 4),
        ("after_train", 2, 2, 4),
    ]
    assert recorder.weights == {"counter": 4.0, "global_step": 4}


def test_a_resumed_epoch_makes_the_rest_of_its_steps():
    recorder = Recorder()
    run(Counting(), [recorder], steps_per_epoch=5, max_epoch=3, starting_epoch=2, starting_step=3)
    assert recorder.weights["counter"] == 2 + 5
    assert [call for call in recorder.calls if call[0] == "before_epoch"] == [
        ("before_epoch", 2, 3, 0),
        ("before_epoch", 3, 0, 2),
    ]


def test_a_trainer_builds_into_the_active_graph_or_its_own():
    with tf.Graph().as_default() as graph:
        assert Counting().graph is graph
    assert Counting().graph is not Counting().graph


def test_a_users_run_step_counts_one_step_whatever_it_runs():
    class Own(Counting):
        def run_step(self):
            for _ in range(self.global_step % 3):
                self.hooked_sess.run(self.train_op)
            self.sess.run(self.counter)

    recorder = Recorder()
    run(Own(), [recorder], steps_per_epoch=6, max_epoch=1)
    assert recorder.weights == {"counter": 0 + 1 + 2 + 0 + 1 + 2, "global_step": 6}


def test_a_run_step_needs_no_train_op():
    class Own(Trainer):
        def run_step(self):
            self.hooked_sess.run(self.fetch)

    with tf.Graph().as_default():
        trainer = Own()
        trainer.fetch = tf.constant(1)
        recorder = Recorder()
        run(trainer, [recorder])
    assert recorder.weights == {"global_step": 4}


def test_a_schedule_sees_the_step_before_its_increment():
    seen = []

    class Own(Counting):
        def __init__(self):
            super().__init__()
            step = tf.cast(get_global_step_var().read_value(), tf.float32)
            self.train_op = tf.assign_add(self.counter, step).op

    trainer = Own()
    read = CallbackFactory(trigger=lambda cb: seen.append(float(cb.trainer.sess.run(trainer.counter))))
    run(trainer, [read], steps_per_epoch=1, max_epoch=50)
    assert seen == list(np.cumsum(range(50)))


def test_stop_training_ends_well_and_after_train_is_called():
    def stop(callback):
        raise StopTraining("enough")

    recorder = Recorder()
    run(Counting(), [CallbackFactory(trigger=stop), recorder], max_epoch=5)
    assert recorder.calls[-1] == ("after_train", 1, 2, 2)


def test_a_callback_may_request_a_stop():
    class AskToStop(Callback):
        def _before_run(self, ctx):
            if self.global_step == 3:
                ctx.request_stop()

    recorder = Recorder()
    run(Counting(), [AskToStop(), recorder], max_epoch=5)
    assert recorder.calls[-1] == ("after_train", 2, 2, 4)


def test_an_error_in_a_step_comes_through_after_after_train():
    class Broken(Counting):
        def run_step(self):
            raise RuntimeError("this step is broken")

    recorder = Recorder()
    trainer = Broken()
    with pytest.raises(RuntimeError, match="this step is broken"):
        run(trainer, [recorder])
    assert recorder.calls[-1][0] == "after_train"
    with pytest.raises(RuntimeError, match="closed Session"):
        trainer.sess.run(trainer.counter)


def test_the_graph_is_finalized_and_the_session_is_the_default_one():
    def check(callback):
        assert callback.graph.finalized
        assert tf.get_default_session() is callback.trainer.sess
        assert tf.get_default_graph() is callback.graph

    run(Counting(), [CallbackFactory(before_train=check, trigger=check, after_train=check)])


def test_a_trainer_with_nothing_to_run_is_an_error():
    with pytest.raises(GraphBuildError, match="Trainer has nothing to run"):
        run(Trainer())


def test_callbacks_are_checked():
    trainer = Counting()
    with pytest.raises(CallbackError, match="got 3: expected a Callback"):
        trainer.register_callback(3)
    with pytest.raises(CallbackError, match="got the monitor"):
        trainer.setup_callbacks([JSONWriter()], [])
    callback = CallbackFactory()
    with pytest.raises(CallbackError, match="twice"):
        run(Counting(), [callback, callback])


def test_a_callback_that_comes_too_late_is_an_error():
    trainer = Counting()
    trainer.setup_callbacks([], [])
    with pytest.raises(CallbackError, match="after setup_callbacks"):
        trainer.register_callback(CallbackFactory())


def test_callbacks_for_the_chief_are_left_out_elsewhere():
    class Worker(Counting):
        is_chief = False

    everywhere = Recorder()
    trainer = Worker()
    assert trainer.register_callback(CallbackFactory()) is False
    assert trainer.register_callback([everywhere]) is True
    run(trainer)
    assert everywhere.calls[-1][0] == "after_train"


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"steps_per_epoch": None}, "got no steps_per_epoch"),
        ({"session_init": 3}, "session_init=3: expected a SessionInit"),
    ],
)
def test_bad_arguments_are_errors(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        run(Counting(), **kwargs)


def test_arguments_by_position_are_an_error():
    with pytest.raises(ConfigError, match="all of them by name"):
        Counting().train_with_defaults([])


def test_a_session_with_too_few_devices_is_an_error():
    class OnManyDevices(Counting):
        def __init__(self):
            super().__init__()
            with tf.device("/cpu:5"):
                self.far = tf.constant(1)

    trainer = OnManyDevices()
    recorder = Recorder()
    run(trainer, [recorder])
    assert recorder.weights["counter"] == 4

    class TooFew(NewSessionCreator):
        def create_session(self):
            return tf.Session()

    from_user = OnManyDevices()
    with pytest.raises(DeviceError, match="/device:CPU:5"):
        run(from_user, session_creator=TooFew())


def test_a_session_that_is_handed_over_keeps_its_values():
    trainer = Counting()
    with tf.Session(graph=trainer.graph) as session:
        trainer.counter.load(10.0, session)
        recorder = Recorder()
        run(trainer, [recorder], session_creator=ReuseSessionCreator(session))
    assert recorder.weights["counter"] == 14.0


@pytest.mark.parametrize("executor", ["auto", "pool", "caller"])
def test_every_executor_counts_every_step(executor):
    class Own(Counting):
        pass

    Own.executor = executor
    recorder = Recorder()
    run(Own(), [recorder], steps_per_epoch=150, max_epoch=2)
    assert recorder.weights == {"counter": 300.0, "global_step": 300}


def test_numbers_are_checked_before_anything_is_done():
    trainer = Counting()
    recorder = Recorder()
    with pytest.raises(ConfigError, match="steps_per_epoch=0: expected an integer of at least 1"):
        run(trainer, [recorder], steps_per_epoch=0)
    assert recorder.calls == []
    assert trainer.sess is None


def test_several_towers_do_not_try_the_calling_thread():
    trainer = Counting()
    trainer.executor = "auto"

    def executor_with_an_op_on(device):
        with trainer.graph.as_default(), tf.device(device):
            tf.constant(0)
        return trainer._fixed_executor()

    assert trainer._fixed_executor() == "auto"
    assert executor_with_an_op_on("/cpu:0") == "auto"
    assert executor_with_an_op_on("/cpu:1") == "pool"
    # A model on one GPU has its input on the CPU.
    assert executor_with_an_op_on("/gpu:0") == "auto"
    assert executor_with_an_op_on("/gpu:1") == "pool"


def test_a_trainer_tells_the_counters_of_its_loop():
    trainer = Trainer()
    names = [
        "epoch_num",
        "global_step",
        "local_step",
        "max_epoch",
        "starting_epoch",
        "starting_step",
        "steps_per_epoch",
    ]
    for value, name in enumerate(names, start=10):
        setattr(trainer.loop, name, value)
        assert getattr(trainer, name) == value


def test_history_is_what_was_reported_and_failures_are_known_when_callbacks_finish():
    trainer, known = Counting(), []
    assert trainer.history == []

    def report(callback):
        callback.trainer.monitors.put_scalar("cost", callback.epoch_num / 2)
        if callback.epoch_num == 2:
            raise ValueError("the callback failed")

    reports = CallbackFactory(trigger=report, after_train=lambda callback: known.append(callback.trainer.has_failed))
    with pytest.raises(ValueError, match="the callback failed"):
        run(trainer, [reports])
    assert trainer.history == [{"epoch_num": e, "global_step": 2 * e, "cost": e / 2} for e in (1, 2)]
    assert known == [True]
    assert not Counting().has_failed
