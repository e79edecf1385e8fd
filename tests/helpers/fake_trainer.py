"""A trainer that is nothing but the life cycle of callbacks around a real session.

It runs the hooks in the order that the docstring of `Callback` shows, so that callbacks are tested without the trainers
that are built on them.
"""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.callbacks.base import Callback
from tpack.callbacks.group import Callbacks
from tpack.callbacks.monitors.base import MonitorBase
from tpack.callbacks.monitors.group import Monitors
from tpack.step.hooked_session import HookedSession
from tpack.tfutils.graph_lookup import get_global_step_var


class Recorder(MonitorBase):
    """Keeps every scalar with the epoch and the step at which it came, and every summary."""

    def __init__(self) -> None:
        self.scalars: list[tuple[str, float, int, int]] = []
        self.summaries: list[tuple[Any, int]] = []

    def process_scalar(self, name: str, val: float) -> None:
        self.scalars.append((name, val, self.epoch_num, self.global_step))

    def process_summary(self, summary: Any) -> None:
        self.summaries.append((summary, self.global_step))

    def values(self, name: str) -> list[float]:
        return [val for other, val, _, _ in self.scalars if other == name]


class FakeTrainer:
    """Runs callbacks around `train_op` in the current default graph.

    Args:
        train_op: what a step runs; None makes one that adds 1 to the variable `w`.
        tower_func: what inference runners build their towers of.
    """

    is_chief = True
    peers: Any = None
    costs: Any = ()
    statistics: Any = {}
    gradients: Any = None
    is_compiled = False
    num_coming = 1
    sanity_steps = 0
    input_source: Any = None
    end_reason = ""
    # None of its steps ever hangs.
    interruption: Any = SimpleNamespace(held=nullcontext, fail=lambda error: None)

    def __init__(self, train_op: Any = None, tower_func: Any = None) -> None:
        self.graph = tf.get_default_graph()
        self.global_step_var = get_global_step_var()
        if train_op is None:
            self.weight = tf.get_variable("w", initializer=0.0, use_resource=True)
            train_op = tf.assign_add(self.weight, 1.0, name="train").op
        self.train_op = train_op
        self.tower_func = tower_func
        if tower_func is not None:
            self.towers = tower_func.towers
        self.recorder = Recorder()
        self.monitors: Any = None
        self.sess: Any = None
        self.hooked_sess: Any = None
        self.interrupted = self.was_stopped = self.is_epoch_over = self.has_failed = False
        self.resumed_states: dict[str, Any] = {}
        self.epoch_num = self.local_step = self.global_step = self.starting_step = 0
        self.steps_per_epoch = self.starting_epoch = self.max_epoch = 1

    @property
    def loop(self) -> "FakeTrainer":
        """The counters, which are the trainer's own."""
        return self

    def agree_to_save(self, wanted: bool = True) -> bool:
        """Return whether to save."""
        return wanted

    def spread_values(self) -> None:
        """Do nothing: there is one tower."""

    def synchronize(self) -> None:
        """Do nothing: there is one tower."""

    def run_between_steps(self, op: Any) -> None:
        """Run an operation."""
        self.sess.run(op)

    def setup(self, callbacks: Any, monitors: Any = ()) -> None:
        """Set up the callbacks and create the session."""
        self.monitors = Monitors([self.recorder, *monitors])
        self.callbacks = Callbacks([*callbacks, self.monitors, _EpochEnd()])
        self._increment = tf.assign_add(self.global_step_var, 1).op
        self.callbacks.setup_graph(self)
        self.sess = cpu_session(self.graph)
        self.sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        self.graph.finalize()
        self.hooked_sess = HookedSession(self.sess, [cb for cb in self.callbacks if _is_asked(cb)])

    def prepare_save(self) -> dict[str, Any]:
        """Let each callback object, and return the states of all."""
        self.callbacks.before_save()
        return self.callbacks.state_to_save() or {}

    def train(
        self,
        callbacks: Any,
        *,
        monitors: Any = (),
        steps_per_epoch: int = 2,
        epochs: tuple[int, int] = (1, 2),
        global_step: int = 0,
        interrupt_at: int | None = None,
    ) -> Any:
        """Go through a whole training and return the trainer.

        Args:
            callbacks: the callbacks.
            monitors: monitors besides the recorder.
            steps_per_epoch: steps in each epoch.
            epochs: the first and the last.
            global_step: steps of former runs.
            interrupt_at: end after this global step, as a signal does.
        """
        self.steps_per_epoch, (self.starting_epoch, self.max_epoch) = steps_per_epoch, epochs
        self.global_step, self.epoch_num = global_step, self.starting_epoch - 1
        self.setup(callbacks, monitors)
        with self.sess.as_default():
            try:
                self.sess.run(self.global_step_var.initializer)
                self.global_step_var.load(global_step, self.sess)
                self.callbacks.before_train()
                self.callbacks.load_saved_state(self.resumed_states)
                for epoch in range(self.starting_epoch, self.max_epoch + 1):
                    self._run_epoch(epoch, interrupt_at)
                    if self.interrupted:
                        break
            except BaseException:
                self.has_failed = True
                raise
            finally:
                try:
                    self.callbacks.after_train()
                finally:
                    self.sess.close()
        return self

    def _run_epoch(self, epoch: int, interrupt_at: int | None) -> None:
        self.epoch_num, self.local_step, self.is_epoch_over = epoch, 0, False
        self.callbacks.before_epoch()
        while self.local_step < self.steps_per_epoch:
            self.hooked_sess.run(self.train_op)
            self.sess.run(self._increment)
            self.local_step += 1
            self.global_step += 1
            self.callbacks.trigger_step()
            if self.global_step == interrupt_at:
                self.interrupted = True
                return
        self.callbacks.after_epoch()
        self.callbacks.trigger_epoch()


class _EpochEnd(Callback):
    """Notes that the epoch is over, but for what is saved of it."""

    reads_statistics = saves_training = True

    def _trigger_epoch(self) -> None:
        self.trainer.is_epoch_over = True


def _is_asked(callback: Any) -> bool:
    return any(callback.implements(hook) for hook in ("before_run", "after_run", "failure"))


def noting(*hooks: str, attribute: str = "calls") -> Any:
    """Return a class decorator that adds these hooks, which append their names to an attribute."""

    def add(cls: type) -> type:
        for hook in hooks:
            setattr(cls, f"_{hook}", lambda self, *_, hook=hook: getattr(self, attribute).append(hook))
        return cls

    return add
