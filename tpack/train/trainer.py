"""The base of all trainers: a session, callbacks, and a loop of steps.

A trainer knows no models. Subclasses build a graph and set ``train_op``, or override ``run_step``.
"""

import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.group import Callbacks
from tpack.callbacks.monitors.base import MonitorBase
from tpack.callbacks.monitors.group import Monitors
from tpack.callbacks.monitors.history import History
from tpack.callbacks.monitors.run_file import RunFile
from tpack.callbacks.nan_checks import CheckCost
from tpack.errors import CallbackError, ConfigError, GraphBuildError, Interrupted, StopTraining
from tpack.input_source.base import InputSource
from tpack.step.fetch_plan import CompiledCopy
from tpack.step.hooked_session import HookedSession
from tpack.step.op_traceback import data_taken_by
from tpack.step.queue_runners import QueueRunnerThreads
from tpack.step.step_seeds import let_seeds_follow_steps
from tpack.tfutils.determinism import initialize_variables, order_sums
from tpack.tfutils.graph_lookup import get_global_step_value
from tpack.tfutils.sesscreate import NewSessionCreator, SessionCreator, check_session_creator, makes_new_sessions
from tpack.tfutils.sessinit import JustCurrentSession, SessionInit, check_session_init
from tpack.tower.devices import check_session_devices, local_devices
from tpack.tower.per_graph import new_graph
from tpack.train.interruption import Interruption, ended_by_signals
from tpack.train.loop import EpochEnd, StepCounter, TrainLoop
from tpack.types import DataSource, Fetches, Peers, Session
from tpack.utils import logger
from tpack.utils.launch_env import check_only_process
from tpack.utils.lazy import LazyModule
from tpack.utils.timer import Timer, humanize_time_delta
from tpack.utils.validation import check_count

_config = LazyModule("tpack.train.config")
_multi_step = LazyModule("tpack.train.multi_step")
_varmanip = LazyModule("tpack.tfutils.varmanip")

_makers: list[Callable[[], Callback]] = []
"""Make the callbacks of `adding_callback`, the innermost block last."""


@contextmanager
def adding_callback(make: Callable[[], Callback]) -> Iterator[None]:
    """Add a new callback to each trainer that is set up in a block; for commands that run a user's script."""
    _makers.append(make)
    try:
        yield
    finally:
        _makers.pop()


def _of_loop(name: str, doc: str) -> Any:
    """Return a property that is an attribute of the trainer's `TrainLoop`."""
    return property(attrgetter(f"loop.{name}"), doc=doc)


class InOwnGraph(type):
    """Metaclass that constructs objects inside a graph, so that a subclass can build in its ``__init__``.

    The graph is the current default one in graph mode; in eager mode, or where the default one is finalized as after a
    training, a new one with the seed of the program.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an object inside the graph."""
        graph = new_graph() if tf.executing_eagerly() else tf.get_default_graph()
        if graph.finalized:
            logger.info(
                f"{cls.__name__} builds in a new graph: the default one is finalized by an earlier training or run."
            )
            graph = new_graph()
        with graph.as_default():
            return super().__call__(*args, **kwargs)

    @property
    def __signature__(cls) -> inspect.Signature:
        """The arguments of ``__init__``, which ``help()`` cannot find behind `__call__`."""
        _, *others = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
        return inspect.Signature(others)


class Trainer(metaclass=InOwnGraph):
    """Base of all trainers; constructed inside the current default graph in graph mode, else in a new one.

    Attributes:
        graph: the graph that is trained.
        train_op: the operation of one step.
        sess: the session, from `initialize` on.
        hooked_sess: the session that runs the callbacks' fetches too, from `initialize` on.
        monitors: the destinations of statistics, from `setup_callbacks` on.
        loop: the counters of epochs and steps.
        input_source: the `InputSource`, if there is one; checkpoints hold its position.
        is_chief: whether this process writes checkpoints and logs.
        peers: the workers that train together; None on one machine.
        interrupted: whether training ended early, by Ctrl-C, SIGTERM or a time limit, and can be resumed.
        was_stopped: whether a callback ended training between two steps.
        has_failed: whether training ended with an error; known when callbacks finish.
        end_reason: why training ended before its last epoch, in a sentence; empty if it did not, or failed.
        interruption: ends training early, for a signal or from another thread; from `main_loop` on.
        resumed_states: the states of callbacks in the checkpoint that is resumed.
        executor: the threads that run the kernels of a step: ``"pool"``, ``"caller"``, or ``"auto"``, which measures
            both in the first steps of a single-tower graph and keeps the faster.
        costs: scalars that ``train_op`` minimises; set with it.
        statistics: scalars of each step by name, for the progress bar and `MovingAverageSummary`; set with
            ``train_op``.
        gradients: the `StepGradients` of several towers; None where the builder has none, or the cost is scaled.
        checks_cost: raise an error when a cost, in the last step of an epoch, or a trainable variable is not finite.
        is_compiled: whether XLA compiles steps, so that all of them should fetch the same.
        steps_per_call: the steps of one session run, without Python in between: see `tpack.train.multi_step`.
        sanity_steps: the batches that each tower of an evaluation runs before the first step.
        keeps_weights: keep the values of `get_weights` in memory when training ends.
        run_facts: the contents of ``run.json`` on the setup of the run; None writes no such file.

    Raises:
        ConfigError: A launcher started this as one of several processes, by `check_only_process`.
    """

    is_chief = True
    peers: Peers | None = None
    executor = "auto"
    checks_cost = True
    is_compiled = False
    steps_per_call = 1
    sanity_steps = 0
    keeps_weights = True

    def __init__(self) -> None:
        self._check_processes()
        self.graph = tf.get_default_graph()
        self.train_op: Fetches = None
        self.input_source: DataSource | None = None
        self.sess: Session = None
        # Set later; callbacks get a trainer that has both.
        self.hooked_sess: HookedSession = None  # type: ignore[assignment]
        self.monitors: Monitors = None  # type: ignore[assignment]
        self.loop = TrainLoop()
        self.interrupted = self.was_stopped = self.has_failed = False
        self.end_reason = ""
        self.interruption: Interruption | None = None
        self.resumed_states: dict[str, Any] = {}
        self.costs: list[tf.Tensor] = []
        self.statistics: dict[str, tf.Tensor] = {}
        self.gradients: Any = None
        self.run_facts: dict[str, Any] | None = {}
        self._weights: dict[str, np.ndarray] | None = None
        self._has_ended = False
        self._in_step = False
        self._building = Timer()
        self._registered: list[Callback] = []
        self._callbacks = Callbacks([])
        self._step_counter = StepCounter(self.loop)
        self._calls: Any = None
        self._compiled_step: CompiledCopy | None = None
        self._init_ops: list[tf.Operation] = []
        self._set_by_init_ops: list[tf.Variable] = []
        if type(self).run_step is Trainer.run_step:
            # A user's own may run the train op several times in a step.
            let_seeds_follow_steps()

    def _check_processes(self) -> None:
        """Reject one of several processes; trainers of several workers override this."""
        check_only_process(type(self).__name__)

    @property
    def serves(self) -> bool:
        """Whether this process is a parameter server, which calls `join` and trains nothing."""
        return False

    def join(self) -> None:
        """Serve the workers until they have ended; raise a `ConfigError` in a process that trains."""
        raise ConfigError(f"{type(self).__name__}.join is for parameter servers: this process trains")

    steps_per_epoch = _of_loop("steps_per_epoch", "Steps in each epoch.")
    starting_epoch = _of_loop("starting_epoch", "The first epoch of this run.")
    max_epoch = _of_loop("max_epoch", "The last epoch.")
    starting_step = _of_loop("starting_step", "Steps of the first epoch that an earlier run has finished.")
    epoch_num = _of_loop("epoch_num", "The current epoch, counted from 1; ``starting_epoch - 1`` before the first.")
    local_step = _of_loop("local_step", "Finished steps of the current epoch.")
    global_step = _of_loop("global_step", "Finished steps of all runs.")
    num_coming = _of_loop("num_coming", "Steps of the next run of the train op.")
    is_epoch_over = _of_loop("is_epoch_over", "Whether the current epoch has nothing left but saving it.")

    @property
    def history(self) -> History:
        """The statistics of this run, during and after training: a row for each step that reported any, oldest first.

        A row is a dictionary of ``epoch_num``, ``global_step`` and statistics. Notebooks show a table;
        ``trainer.history.to_pandas()`` returns one.
        """
        return History() if self.monitors is None else self.monitors.rows()

    def get_weights(self) -> dict[str, np.ndarray]:
        """Return the values of the model's variables by name, without those of the optimizer.

        They are the present ones during training, and those of its end afterwards, when ``sess`` is closed; for
        `DictRestore`, `save_checkpoint_vars` and the predictors of other programs.

        Raises:
            ConfigError: There is no session yet, or training failed or had ``keeps_weights=False``.
        """
        if self._weights is not None:
            return dict(self._weights)
        if self.sess is None or self._has_ended:
            state = "after a training that failed or kept no weights"
            if self.sess is None:
                state = "before training"
            elif not self.is_chief:
                state = "after training in another worker than 0, which alone keeps them"
            raise ConfigError(f"get_weights was called {state}: expected a session; use the checkpoints of ModelSaver")
        values: dict[str, np.ndarray] = _varmanip.model_values(self.sess)
        return values

    def register_callback(self, cb: Callback | Sequence[Callback]) -> bool:
        """Add a callback, or several, before `setup_callbacks`; return whether this process will run it.

        Raises:
            CallbackError: It is not a callback, or `setup_callbacks` was called.
        """
        if isinstance(cb, (list, tuple)):
            return all([self.register_callback(item) for item in cb])
        if not isinstance(cb, Callback):
            raise CallbackError(f"register_callback got {cb!r}: expected a Callback")
        if self._callbacks:
            raise CallbackError(f"register_callback got {cb} after setup_callbacks: expected it before")
        if cb.chief_only and not self.is_chief:
            logger.info(f"Callback {cb} runs in the chief process only.")
            return False
        self._registered.append(cb)
        return True

    def run_step(self) -> None:
        """Make one step; a subclass may run anything here."""
        self.hooked_sess.run(self.train_op)

    def run_between_steps(self, op: tf.Operation) -> None:
        """Run an operation that synchronises the towers, of all processes together."""
        self.sess.run(op)

    def setup_callbacks(self, callbacks: Sequence[Callback], monitors: Sequence[MonitorBase]) -> None:
        """Register callbacks and monitors and let them add to the graph.

        Raises:
            CallbackError: One is not a callback, is there twice, or is a monitor.
            GraphBuildError: There is no ``train_op`` and `run_step` is not overridden.
            ConfigError: ``steps_per_call`` is not positive; or above 1 where a callback needs each step, steps are fed,
                or `run_step` is overridden.
        """
        self._check_steps()
        for callback in [*callbacks, *(make() for make in _makers)]:
            if isinstance(callback, MonitorBase):
                raise CallbackError(f"setup_callbacks got the monitor {callback} in callbacks: expected it in monitors")
            self.register_callback(callback)
        self.monitors = Monitors([monitor for monitor in monitors if self.is_chief or not monitor.chief_only])
        self.register_callback(self.monitors)
        checks = [CheckCost(self.costs, in_each_step=self.is_compiled)] if self.checks_cost else []
        status: list[Callback] = []
        directory = None if self.run_facts is None else logger.begin_training()
        if directory is not None and self.run_facts is not None and self.is_chief:
            status = [RunFile(directory, self.run_facts)]
        self._callbacks = Callbacks([self._step_counter, *checks, *self._registered, *status, EpochEnd(self.loop)])
        with self.graph.as_default(), tf.name_scope("callbacks"):
            self._callbacks.setup_graph(self)
        if self.steps_per_call > 1:
            with self.graph.as_default():
                self._calls = _multi_step.MultiStepRunner(self.steps_per_call, self.train_op, self._callbacks)
            self._calls.count_by(self._step_counter)

    def _check_steps(self) -> None:
        name, runs_itself = type(self).__name__, type(self).run_step is not Trainer.run_step
        if self.train_op is None and not runs_itself:
            raise GraphBuildError(f"{name} has nothing to run: set train_op, or override run_step")
        check_count(self, "steps_per_call", self.steps_per_call)
        if self.steps_per_call > 1 and runs_itself:
            raise ConfigError(
                f"{name} overrides run_step and got steps_per_call={self.steps_per_call}: expected 1, since run_step "
                "is called for each step"
            )

    def initialize(self, session_creator: SessionCreator, session_init: SessionInit | None = None) -> None:
        """Create the session and initialise the variables; the graph is final afterwards.

        Raises:
            ConfigError: ``session_init`` is not a `SessionInit`.
            DeviceError: The session lacks a device of the graph.
            CheckpointError: A restored value is missing, damaged or of another shape.
        """
        session_init = JustCurrentSession() if session_init is None else session_init
        check_session_creator("initialize", session_creator)
        check_session_init("initialize", session_init)
        order_sums(self.graph, session_creator)
        secs_to_build, timer = self._building.seconds(), Timer()
        with self.graph.as_default():
            self.sess = session_creator.create_session()
            try:
                self._initialize_session(session_init, is_new=makes_new_sessions(session_creator))
            except BaseException:
                self.sess.close()
                raise
        self.graph.finalize()
        build_time, session_time = humanize_time_delta(secs_to_build), humanize_time_delta(timer.seconds())
        logger.info(
            f"Building the graph of {len(self.graph.get_operations()):,} operations took {build_time}, making and "
            f"initializing the session {session_time}. The first step {'compiles' if self.is_compiled else 'prepares'} "
            "it, and takes longer than the others."
        )

    def begin_to_build(self) -> None:
        """Restart the timer of building the graph, which started when the trainer was constructed."""
        self._building.reset()

    def _initialize_session(self, session_init: SessionInit, *, is_new: bool) -> None:
        if not is_new:
            # A user's own creator may ignore the devices of the graph.
            check_session_devices(self.sess, self.graph)
        initialize_variables(self.sess, except_for=self._set_by_init_ops, is_new=is_new)
        session_init.init(self.sess)
        for init_op in self._init_ops:
            self.sess.run(init_op)
        with self.sess.as_default():
            self.loop.global_step = get_global_step_value()
        self.initialize_hooks()

    def initialize_hooks(self) -> None:
        """Make ``hooked_sess`` from the session and the callbacks."""
        callbacks = [cb for cb in self._callbacks if cb.implements("failure") or cb in self._callbacks.step_callbacks]
        self._queue_runners = QueueRunnerThreads(self.sess)
        self.hooked_sess = HookedSession(
            self.sess,
            [*callbacks, *self._queue_runners.callbacks()],
            executor=self._fixed_executor(),
            compiled=self._compiled_step,
        )

    def main_loop(
        self, steps_per_epoch: int, starting_epoch: int, max_epoch: int, *, starting_step: int | None = None
    ) -> None:
        """Train from ``starting_epoch`` to the end of ``max_epoch``, and close the session.

        Args:
            steps_per_epoch: steps in each epoch.
            starting_epoch: the first epoch, counted from 1.
            max_epoch: the last epoch.
            starting_step: finished steps of the first epoch; None means the argument of `train`.

        Raises:
            ConfigError: A number is too small.
            InputError: The input failed or ended.
            KeyboardInterrupt: Ctrl-C, after an orderly end.
            SystemExit: SIGTERM, after an orderly end; the exit code is 143.
        """
        if starting_step is None:
            starting_step = self.loop.starting_step
        self.loop.config(steps_per_epoch, starting_epoch, max_epoch, starting_step=starting_step)
        # Closing the session makes a step return, whatever TensorFlow does.
        interruption = Interruption(
            self.sess.close,
            let_go=self._callbacks.let_go,
            may_raise=self._may_be_interrupted,
            ask_to_end=self._ask_to_end,
            let_go_secs=self._let_go_secs(),
        )
        with self.graph.as_default(), self.sess.as_default(), interruption as self.interruption:
            has_failed = True
            try:
                self._train_to_the_end(interruption)
                has_failed = False
            finally:
                interruption.leave()
                self._finish(has_failed=has_failed)
        interruption.end_process()

    def _train_to_the_end(self, interruption: Interruption) -> None:
        """Train until all epochs are done, a callback stops training, or a signal arrives."""
        try:
            self._train(interruption)
        except StopTraining as stop:
            self.interrupted, self.was_stopped = stop.to_be_continued, True
            self.end_reason = f"Training was stopped in epoch {self.loop.epoch_num}: {stop or 'no reason given'}."
            logger.info(self.end_reason)
        except Interrupted as request:
            self._end_interrupted(request)
        except Exception as error:
            if not interruption.broke_off:
                raise
            logger.warning(f"The interrupted step ended with {type(error).__name__}: {error}")
            self._end_interrupted(error)

    def _end_interrupted(self, error: BaseException) -> None:
        """Find out whether callbacks may save the interrupted training."""
        self.interrupted = self._ended_between_steps(error)
        left_out = "" if self.interrupted else " Nothing after the last checkpoint is saved."
        self.end_reason = f"Training was ended by a signal after step {self.loop.global_step}.{left_out}"
        logger.warning(self.end_reason)

    def _ended_between_steps(self, error: BaseException) -> bool:
        """Return whether the variables and the position in the data are those of the last counted step."""
        try:
            with self.sess.as_default():
                num_uncounted = get_global_step_value() - self.loop.global_step
        except (RuntimeError, tf.errors.OpError):
            # The session is closed.
            return False
        if not self._in_step or not (num_uncounted or self.hooked_sess.has_begun):
            return True
        if num_uncounted or type(self).run_step is not Trainer.run_step:
            # The contents of a user's own step are unknown.
            return False
        num_taken = data_taken_by(self.train_op, error, prefix="" if self._calls is None else self._calls.prefix)
        if num_taken is not None and isinstance(self.input_source, InputSource):
            self.input_source.mark_prefetched(num_taken)
        return num_taken is not None

    def _may_be_interrupted(self, interruption: Interruption) -> bool:
        """Return whether a signal handler may end training where the main thread is."""
        if not self._in_step or type(self).run_step is not Trainer.run_step:
            return interruption.is_late
        # A step that has begun ends soon, or is cancelled.
        return not self.hooked_sess.has_begun

    def _let_go_secs(self) -> float | None:
        """Return the time after a signal until waits for data are cancelled; None for the usual one."""
        return None

    def _ask_to_end(self) -> None:
        """End a run of several steps after the current one."""
        if self._calls is not None:
            self._calls.stop(self.sess)

    def prepare_save(self) -> dict[str, Any]:
        """Let each callback veto a checkpoint by an error; return their states by name, later `resumed_states`."""
        self._callbacks.before_save()
        states: dict[str, Any] | None = self._callbacks.state_to_save()  # type: ignore[assignment]
        return states or {}

    def agree_to_save(self, wanted: bool = True) -> bool:
        """Return whether the chief saves now, after a synchronisation and comparison; all processes call it before."""
        if wanted:
            self.synchronize()
        return wanted

    def spread_values(self) -> None:
        """Give all towers, of all workers, the values of the main tower of the chief; all processes call it."""
        for op in self._init_ops:
            self.sess.run(op)

    def synchronize(self) -> None:
        """Give the main tower the result of all towers; where each step does, there is nothing to do."""

    def _train(self, interruption: Interruption) -> None:
        self._callbacks.before_train()
        self._callbacks.load_saved_state(self.resumed_states)
        for epoch in range(self.loop.starting_epoch, self.loop.max_epoch + 1):
            self._meet_before(epoch)
            self.loop.start_epoch(epoch)
            logger.info(f"Start Epoch {epoch} ...")
            self._callbacks.before_epoch()
            start = time.perf_counter()
            self._run_epoch(interruption)
            duration = humanize_time_delta(time.perf_counter() - start)
            # Closes the progress bar, which shares the terminal with the log.
            self._callbacks.after_epoch()
            logger.info(f"Epoch {epoch} (global step {self.loop.global_step}) finished, time: {duration}.")
            self._callbacks.trigger_epoch()
            interruption.check()
        logger.info("Training has finished!")

    def _meet_before(self, epoch_num: int) -> None:
        """Wait for other processes before an epoch; one machine has none."""

    def _run_epoch(self, interruption: Interruption) -> None:
        loop, trigger_step = self.loop, self._callbacks.bound("trigger_step")
        session = self.hooked_sess
        make_steps = self._make_step if self._calls is None else self._make_steps
        self._end_if_asked(interruption)
        while not loop.epoch_finished:
            session.has_begun = False
            self._in_step = True
            num_made = make_steps()
            self._in_step = False
            self._end_if_asked(interruption, trigger_step if num_made else None)

    def _end_if_asked(self, interruption: Interruption, trigger_step: Callable[[], None] | None = None) -> None:
        """Trigger the callbacks of a step, if one was made, and raise if one of them or a signal ends training."""
        if trigger_step is not None:
            trigger_step()
        interruption.check()
        if self.hooked_sess.should_stop():
            raise StopTraining("a callback requested it")

    def _make_step(self) -> int:
        self.run_step()
        self._step_counter.finish_step()
        return 1

    def _make_steps(self) -> int:
        num_made: int = self._calls.run(self.hooked_sess, self.loop)
        self._step_counter.finish_step()
        return num_made

    def _finish(self, *, has_failed: bool) -> None:
        self.has_failed = has_failed
        try:
            self._callbacks.after_train()
        except Exception as error:
            if not has_failed:
                raise
            # Mostly a consequence of the error that ends training, which is raised.
            logger.error(f"Callbacks could not finish after the error that ended training: {error}")
        finally:
            if self.keeps_weights and not has_failed and self.is_chief:
                # A signal may have closed the session.
                with suppress(RuntimeError, tf.errors.OpError):
                    self._weights = self.get_weights()
            # Closes the session where there are any.
            self._queue_runners.end()
            self._has_ended = True
            self.hooked_sess.close()

    def _fixed_executor(self) -> str:
        """Return the executor, ``"pool"`` in place of ``"auto"`` where the calling thread would be wrong."""
        if self.executor != "auto":
            return self.executor
        # One thread for several devices would run the towers one after another.
        devices = local_devices(self.graph)
        return "auto" if len({device for device in devices if device[0] != "CPU"} or devices) <= 1 else "pool"

    def train(
        self,
        callbacks: Sequence[Callback],
        monitors: Sequence[MonitorBase],
        session_creator: SessionCreator,
        session_init: SessionInit | None,
        steps_per_epoch: int,
        starting_epoch: int = 1,
        max_epoch: int = 9999999,
        *,
        starting_step: int = 0,
    ) -> None:
        """Check the numbers, set up the callbacks, initialise and run the loop; the numbers are those of `main_loop`.

        Raises:
            ConfigError: An argument is invalid, or the trainer was used before.
            KeyboardInterrupt: Ctrl-C, as in `main_loop`.
            SystemExit: SIGTERM, as in `main_loop`.
        """
        if self._callbacks:
            raise ConfigError(f"this {type(self).__name__} was used before: use a new one, in a new graph")
        check_session_creator("train", session_creator)
        check_session_init("train", session_init)
        self.loop.config(steps_per_epoch, starting_epoch, max_epoch, starting_step=starting_step)
        with ended_by_signals(self._close_session):
            self.setup_callbacks(callbacks, monitors)
            self.initialize(session_creator, session_init)
        # A script may override it, with these three arguments.
        self.main_loop(steps_per_epoch, starting_epoch, max_epoch)

    def _close_session(self) -> None:
        if self.sess is not None:
            self.sess.close()

    def train_with_defaults(
        self,
        _sentinel: None = None,
        callbacks: Sequence[Callback] | None = None,
        monitors: Sequence[MonitorBase] | None = None,
        session_creator: SessionCreator | None = None,
        session_init: SessionInit | None = None,
        steps_per_epoch: int | None = None,
        starting_epoch: int = 1,
        max_epoch: int = 9999999,
        extra_callbacks: Sequence[Callback] | None = None,
        *,
        starting_step: int = 0,
    ) -> None:
        """Call `train` with defaults for missing arguments; all are given by name.

        None means `DEFAULT_CALLBACKS` for ``extra_callbacks``, `DEFAULT_MONITORS`, and a `NewSessionCreator`.

        Raises:
            ConfigError: An argument is given by position, or ``steps_per_epoch`` is missing.
        """
        if _sentinel is not None:
            raise ConfigError("train_with_defaults got an argument by position: expected all of them by name")
        if steps_per_epoch is None:
            raise ConfigError("train_with_defaults got no steps_per_epoch: expected the steps of an epoch")
        self.train(
            [*(callbacks or ()), *(_config.DEFAULT_CALLBACKS() if extra_callbacks is None else extra_callbacks)],
            _config.DEFAULT_MONITORS() if monitors is None else monitors,
            NewSessionCreator() if session_creator is None else session_creator,
            session_init,
            steps_per_epoch,
            starting_epoch,
            max_epoch,
            starting_step=starting_step,
        )
