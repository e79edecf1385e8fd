"""The session of an Estimator's model: opened with hooks, variables and input ready, and closed in order.

Its steps are those of a `HookedSession`, which runs the fetches of all hooks as one callable.
"""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import CheckpointError, ConfigError, DataPointError
from tpack.estimator.distributed_run import ClusterRun
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import ODD_BATCH
from tpack.input_source.dataset import StreamElements
from tpack.step.hooked_session import HookAdapter, HookedSession
from tpack.tfutils.checkpoint import CheckpointReader
from tpack.tfutils.determinism import order_sums
from tpack.tfutils.sesscreate import NewSessionCreator
from tpack.types import Fetches
from tpack.utils import logger

_STOP_GRACE_SECS = 30
"""The time limit for queue runners to end after the last step."""


@dataclass(frozen=True)
class SessionPlan:
    """The parameters of a session.

    Attributes:
        scaffold: the scaffold of the graph.
        checkpoint: the prefix of the checkpoint to restore; None for initial values.
        session_config: None for tpack's default.
        input_initializer: opens the dataset; None without one.
        cluster: the cooperation of several processes; None for a single process.
        elements: the reader of data in Python, or None.
    """

    scaffold: tf.train.Scaffold
    checkpoint: str | None
    session_config: tf.ConfigProto | None
    input_initializer: tf.Operation | None = None
    cluster: ClusterRun | None = None
    elements: StreamElements | None = None


class QueueCoordinator(tf.train.Coordinator):
    """A coordinator that knows whether threads run beside the steps, such as queue runners.

    Attributes:
        has_threads: whether there are any.
    """

    def __init__(self) -> None:
        super().__init__()
        self.has_threads = False

    def register_thread(self, thread: threading.Thread) -> None:
        """Register a thread that must end with the session."""
        self.has_threads = True
        super().register_thread(thread)


class _ModelSession(HookedSession):
    """A session that raises a DataPointError for a batch that cannot be split over the towers."""

    def run(self, fetches: Fetches, *args: Any, **kwargs: Any) -> Any:
        """Run a step, as `HookedSession` does; raise a DataPointError for an odd batch."""
        try:
            return super().run(fetches, *args, **kwargs)
        except tf.errors.InvalidArgumentError as error:
            found = re.search(rf"{ODD_BATCH}[^\]\n]*", error.message)
            if found is None:
                raise
            raise DataPointError(found.group()) from error


@contextmanager
def model_session(
    graph: tf.Graph, plan: SessionPlan, hooks: Sequence[tf.train.SessionRunHook]
) -> Iterator[HookedSession]:
    """Open a session on a graph for a block, and finalize the graph.

    Inside the block neither the graph nor the session is the default. After a block without an error, hooks end.

    Args:
        graph: the complete graph.
        plan: the parameters.
        hooks: session hooks, called in this order.

    Raises:
        CheckpointError: The checkpoint does not fit the graph.
        ConfigError: The model's own initialisation leaves variables without a value.
        ClusterError: Another process was lost, or is to train something else.
        Exception: The error of a queue runner's thread.
    """
    cluster = plan.cluster
    with graph.as_default():
        for hook in hooks:
            hook.begin()
        if cluster is not None:
            cluster.prepare()
        own = NewSessionCreator(config=plan.session_config)
        creator = own if cluster is None else cluster.session_creator(plan.session_config)
        order_sums(graph, creator)
        plan.scaffold.finalize()
        session = creator.create_session()
    coordinator = QueueCoordinator()
    threads: list[threading.Thread] = []
    try:
        with nullcontext() if cluster is None else cluster.ended_with_others(session):
            with graph.as_default(), session.as_default():
                initialize(session, plan)
                if tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS):
                    threads = tf.train.start_queue_runners(session, coordinator)
                for hook in hooks:
                    hook.after_create_session(session, coordinator)
            # When a step fails, the reader's error takes precedence.
            reading = [] if plan.elements is None else [plan.elements]
            yield _ModelSession(session, [*map(HookAdapter, hooks), *reading])
            coordinator.raise_requested_exception()
            with graph.as_default(), session.as_default():
                for hook in hooks:
                    hook.end(session)
    finally:
        coordinator.request_stop()
        if plan.elements is not None:
            plan.elements.close()
        # Threads blocked inside of TensorFlow only end with the session.
        if cluster is None:
            session.close()
        else:
            cluster.close(session)
        coordinator.join(threads, stop_grace_period_secs=_STOP_GRACE_SECS)


def add_default_saver(scaffold: tf.train.Scaffold, config: RunConfig) -> None:
    """Add a saver of all variables to the current graph, unless the model has its own.

    The model's scaffold adopts the saver when it is finalized.
    """
    if scaffold.saver is None and not tf.get_collection(tf.GraphKeys.SAVERS):
        saver = WholeModelSaver(
            max_to_keep=config.keep_checkpoint_max, keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours
        )
        tf.add_to_collection(tf.GraphKeys.SAVERS, saver)


def initialize(session: tf.Session, plan: SessionPlan) -> None:
    """Initialise the variables, tables and datasets of a session on the default graph, with a finalized scaffold.

    Raises:
        CheckpointError: The checkpoint does not fit the graph.
        ConfigError: Variables are left without a value.
    """
    scaffold = plan.scaffold
    if plan.cluster is None:
        _first_values(session, plan)
    else:
        plan.cluster.initialize(session, lambda: _first_values(session, plan))
    session.run(scaffold.local_init_op, scaffold.local_init_feed_dict)
    if plan.input_initializer is not None:
        session.run(plan.input_initializer)
    missing = session.run(scaffold.ready_op)
    if missing.size:
        names = ", ".join(name.decode() for name in missing)
        raise ConfigError(f"the model's scaffold left variables without a value: {names}")


def _first_values(session: tf.Session, plan: SessionPlan) -> None:
    """Restore the variables from the checkpoint, or initialise them."""
    scaffold = plan.scaffold
    session.run(scaffold.init_op, scaffold.init_feed_dict)
    if plan.checkpoint is not None:
        restore(session, scaffold.saver, plan.checkpoint)
    elif scaffold.init_fn is not None:
        scaffold.init_fn(session)


def restore(session: tf.Session, saver: tf.train.Saver, checkpoint: str) -> None:
    """Restore the checkpoint with a prefix; raise a CheckpointError if it does not fit the graph."""
    try:
        saver.restore(session, checkpoint)
    except (tf.errors.OpError, ValueError) as error:
        raise CheckpointError(f"the checkpoint {checkpoint} does not fit the model: {error}") from error
    logger.info(f"Restored the model from {checkpoint}.")


class WholeModelSaver(tf.train.Saver):
    """A ``tf.train.Saver`` of all variables that checks shapes before it restores.

    TensorFlow restores a value of any shape, and the model fails or goes wrong later (tensorflow/tensorflow#52220).

    Args:
        **options: as for ``tf.train.Saver``.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(save_relative_paths=True, defer_build=True, **options)

    def restore(self, sess: tf.Session, save_path: str) -> None:
        """Restore the checkpoint with a prefix.

        Raises:
            CheckpointError: It is damaged, or a variable has another shape in it; nothing was restored.
        """
        saved = CheckpointReader(save_path).shapes
        for variable in sess.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES):
            name = variable.op.name
            if name in saved and not variable.shape.is_compatible_with(saved[name]):
                shapes = f"{name} has shape {saved[name]}: expected {variable.shape}"
                raise CheckpointError(f"the checkpoint {save_path} does not fit the model: {shapes}")
        super().restore(sess, save_path)
