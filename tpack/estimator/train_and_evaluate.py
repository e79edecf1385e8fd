"""Train an Estimator and evaluate its checkpoints, in one process or in each role of a cluster.

Parameter servers serve, and the evaluator evaluates without a connection to the others: it reads files in the model's
directory, checkpoints and the chief's note that training is over, which may be before the step to end at.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tpack.errors import CheckpointError, ClusterError, ConfigError
from tpack.estimator.estimator import Estimator
from tpack.estimator.exporters import Exporter
from tpack.estimator.inputs import GivenInput, Input
from tpack.estimator.run_config import ClusterPlace, RunConfig, number_of_steps
from tpack.estimator.spec import checked_hooks
from tpack.multi_worker.cluster.peers import connect_peers
from tpack.multi_worker.servers import start_server
from tpack.tfutils.graph_lookup import GLOBAL_STEP_NAME
from tpack.utils import logger
from tpack.utils.launch_env import launch_token
from tpack.utils.validation import check_arguments, check_instances, check_number, check_text


class _EvalFields(NamedTuple):
    input_fn: Input
    steps: int | None
    name: str | None
    hooks: tuple[tf.train.SessionRunHook, ...]
    exporters: tuple[Exporter, ...]
    start_delay_secs: float
    throttle_secs: float
    batch_size: int | None


@check_arguments
class EvalSpec(_EvalFields):
    """The parameters of evaluations and exports.

    Args:
        input_fn: as for `Estimator.evaluate`.
        steps: the number of batches; None for all.
        name: the name of the evaluation, as for `Estimator.evaluate`.
        hooks: session hooks.
        exporters: an `Exporter` or several of different names, called after each evaluation.
        start_delay_secs: the delay of a cluster's evaluator before its first search for a checkpoint.
        throttle_secs: the least seconds between the starts of two evaluations.
        batch_size: as for `Estimator.evaluate`.

    Raises:
        ConfigError: An argument is wrong, a number is negative, or two exporters have one name.

    Source:
        The class of this name in ``tf.estimator``.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Input,
        steps: int | None = 100,
        name: str | None = None,
        hooks: Sequence[tf.train.SessionRunHook] | None = None,
        exporters: Exporter | Sequence[Exporter] | None = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
        *,
        batch_size: int | None = None,
    ) -> "EvalSpec":
        """Check the arguments."""
        GivenInput(input_fn, batch_size)
        steps = number_of_steps("EvalSpec", "steps", steps)
        check_number("EvalSpec", "start_delay_secs", start_delay_secs, low=0)
        check_number("EvalSpec", "throttle_secs", throttle_secs, low=0)
        if name is not None:
            check_text("EvalSpec", "name", name)
        found, secs = _checked_exporters(exporters), (start_delay_secs, throttle_secs)
        return super().__new__(cls, input_fn, steps, name, checked_hooks("hooks", hooks), found, *secs, batch_size)


class _TrainFields(NamedTuple):
    input_fn: Input
    max_steps: int | None
    hooks: tuple[tf.train.SessionRunHook, ...]
    batch_size: int | None


@check_arguments
class TrainSpec(_TrainFields):
    """The parameters of training.

    Args:
        input_fn: as for `Estimator.train`.
        max_steps: the global step to end at; None for the end of the data.
        hooks: session hooks.
        batch_size: as for `Estimator.train`.

    Raises:
        ConfigError: An argument is wrong, or the number is not positive.

    Source:
        The class of this name in ``tf.estimator``.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Input,
        max_steps: int | None = None,
        hooks: Sequence[tf.train.SessionRunHook] | None = None,
        *,
        batch_size: int | None = None,
    ) -> "TrainSpec":
        """Check the arguments."""
        GivenInput(input_fn, batch_size)
        max_steps = number_of_steps("TrainSpec", "max_steps", max_steps)
        return super().__new__(cls, input_fn, max_steps, checked_hooks("hooks", hooks), batch_size)


@check_arguments
def train_and_evaluate(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec, *, evaluator_timeout_secs: float = 7200
) -> tuple[dict[str, Any], list[str | None]]:
    """Train, and evaluate the model at its checkpoints and at the end; in a cluster, this process's part of it.

    The part follows from the place of the process in the cluster, see `RunConfig`:

    - ``chief``, ``worker``: train, as `Estimator.train`, and return nothing.
    - ``master``, and the first worker of a cluster without a job ``chief``: train as the chief and evaluate at each
      checkpoint, while the others wait.
    - ``ps``: hold variables until all workers have ended.
    - ``evaluator``: evaluate and export each new checkpoint, up to that of the last step, or the last one after the end
      of training.

    The first checkpoint, the start of training, is not evaluated, nor are those within ``throttle_secs`` of the last
    evaluation, except for the last one. After each evaluation the exporters are called; they export to
    ``export/<name>`` in the model's directory.

    Args:
        estimator: the model.
        train_spec: the parameters of training. A model at ``max_steps`` is only evaluated.
        eval_spec: the parameters of evaluations.
        evaluator_timeout_secs: the time limit of an evaluator for a new checkpoint.

    Returns:
        The results of the last evaluation, and for each exporter its result after that; an empty dict and list in a
        process that does not evaluate.

    Raises:
        ConfigError: An argument is wrong.
        CheckpointError: No checkpoint was saved.
        ClusterError: Another process was lost, or failed.

    Example:
        train_and_evaluate(estimator, TrainSpec(train_input_fn, max_steps=1000), EvalSpec(eval_input_fn))

    Source:
        The function of this name in ``tf.estimator``. There, a finished model is not evaluated, without ``max_steps``
        no export is final, parameter servers never end, nor does an evaluator if training stops before the last step,
        and a cluster has a ``chief`` or a ``master``.
    """
    place = estimator.config.place
    timeout = check_number("train_and_evaluate", "evaluator_timeout_secs", evaluator_timeout_secs, low=0)
    if place.task_type == "ps":
        serve_variables(estimator.config)
        return {}, []
    evaluator = _Evaluator(estimator, eval_spec)
    note = EndNote(estimator.model_dir, place, os.environ)
    if place.task_type == "evaluator":
        pace = Pace(eval_spec.start_delay_secs, eval_spec.throttle_secs, timeout)
        last_step = train_spec.max_steps
        evaluate_until_end(
            lambda checkpoint, is_over: evaluator.evaluate_found(checkpoint, last_step, is_over=is_over),
            estimator.latest_checkpoint,
            note,
            pace,
            last_step=last_step,
        )
        return evaluator.results
    has_evaluator = place.has_others and "chief" in place.cluster
    evaluates = place.is_chief and not has_evaluator
    with note.written_after() if place.is_chief and place.has_others else nullcontext():
        estimator.train(
            train_spec.input_fn,
            hooks=train_spec.hooks,
            max_steps=train_spec.max_steps,
            saving_listeners=[_EvaluatesCheckpoints(evaluator)] if evaluates else None,
            batch_size=train_spec.batch_size,
        )
    # After training, when its session is closed.
    return evaluator.finish() if evaluates else ({}, [])


class _Evaluator:
    """The evaluation and export of each checkpoint, once."""

    def __init__(self, estimator: Estimator, spec: EvalSpec, clock: Callable[[], float] = time.monotonic) -> None:
        self._estimator = estimator
        self._spec = spec
        self._clock = clock
        self._next_time = -float("inf")
        self._checkpoint: str | None = None
        self._results: dict[str, Any] = {}
        self._exports: list[str | None] = []

    def evaluate_unless_recent(self) -> None:
        """Evaluate and export the newest checkpoint, unless the last evaluation was within ``throttle_secs``."""
        if self._clock() < self._next_time:
            logger.info(f"This checkpoint is not evaluated: throttle_secs is {self._spec.throttle_secs}.")
            return
        self._evaluate()
        self._export(is_final=False)

    def evaluate_found(self, checkpoint: str, last_step: int | None, *, is_over: bool) -> int:
        """Evaluate and export another process's checkpoint, by its prefix; return its step.

        The export is final if training is over or at its last step, which may be None for unknown.
        """
        self._evaluate(checkpoint)
        step = int(self._results[GLOBAL_STEP_NAME])
        self._export(is_final=is_over or (last_step is not None and step >= last_step))
        return step

    @property
    def results(self) -> tuple[dict[str, Any], list[str | None]]:
        """The results of the last evaluation and, for each exporter, of the export after it."""
        return self._results, self._exports

    def finish(self) -> tuple[dict[str, Any], list[str | None]]:
        """Evaluate the last checkpoint, if it was not evaluated, and export it as the final one."""
        if self._checkpoint is None or self._checkpoint != self._estimator.latest_checkpoint():
            self._evaluate()
        self._export(is_final=True)
        return self.results

    def _evaluate(self, checkpoint: str | None = None) -> None:
        self._next_time = self._clock() + self._spec.throttle_secs
        self._checkpoint = checkpoint or self._estimator.latest_checkpoint()
        spec = self._spec
        self._results = self._estimator.evaluate(
            spec.input_fn, spec.steps, spec.hooks, self._checkpoint, spec.name, batch_size=spec.batch_size
        )
        self._exports = [None] * len(spec.exporters)

    def _export(self, *, is_final: bool) -> None:
        base = os.path.join(self._estimator.model_dir, "export")
        for index, exporter in enumerate(self._spec.exporters):
            # A checkpoint that turns out to be the last after its export is not exported again.
            if self._exports[index] is None:
                self._exports[index] = exporter.export(
                    self._estimator, os.path.join(base, exporter.name), str(self._checkpoint), self._results, is_final
                )


class _EvaluatesCheckpoints(tf.train.CheckpointSaverListener):
    """A listener that evaluates every checkpoint but the first, which is untrained."""

    def __init__(self, evaluator: _Evaluator) -> None:
        self._evaluator = evaluator
        self._is_first = True

    def after_save(self, session: tf.Session, global_step_value: int) -> None:
        """Evaluate, unless this is the first checkpoint."""
        if not self._is_first:
            self._evaluator.evaluate_unless_recent()
        self._is_first = False


def _checked_exporters(exporters: Exporter | Sequence[Exporter] | None) -> tuple[Exporter, ...]:
    given = (exporters,) if isinstance(exporters, Exporter) else exporters or ()
    found = check_instances("EvalSpec", "exporters", given, Exporter)
    names = [exporter.name for exporter in found]
    if len(set(names)) < len(names):
        raise ConfigError(f"EvalSpec got exporters of the names {', '.join(names)}: expected different ones")
    return tuple(found)


NOTE_NAME = "training_ended.json"
_POLL_SECS = 0.5


def serve_variables(config: RunConfig) -> None:
    """Keep variables for the workers, as a parameter server, until all of them have ended.

    Args:
        config: has the place of this process.

    Raises:
        ClusterError: The port is in use, or workers are missing.
        PeerLostError: A worker, or another parameter server, was lost.
    """
    member = config.member()
    start_server(member, config=config.session_config)
    with connect_peers(member, timeout_secs=config.session_creation_timeout_secs) as peers:
        peers.serve_until_end()
    logger.info("All workers have ended, and so does this parameter server.")


class EndNote:
    """The chief's note that training is over, with the identity of the training.

    Args:
        directory: that of the model.
        place: the place of any process of the cluster.
        environment: its variables.
    """

    def __init__(self, directory: str, place: ClusterPlace, environment: Mapping[str, str]) -> None:
        self._path = os.path.join(directory, NOTE_NAME)
        task = place.task
        trains = {
            job: list(addresses) for job, addresses in (task.cluster if task else {}).items() if job != "evaluator"
        }
        told = json.dumps([launch_token(environment), trains], sort_keys=True)
        self._training = hashlib.sha256(told.encode()).hexdigest()

    @contextmanager
    def written_after(self) -> Iterator[None]:
        """Write the note after a block that trains; that of an earlier training is removed before."""
        with suppress(FileNotFoundError):
            os.remove(self._path)
        try:
            yield
        except BaseException as error:
            self._write(f"{type(error).__name__}: {error}")
            raise
        self._write("")

    def read(self) -> str | None:
        """Return the error that ended training, "" without one; None while it goes on."""
        try:
            with open(self._path, encoding="utf-8") as file:
                told = json.load(file)
        except FileNotFoundError:
            return None
        return str(told["failure"]) if told["training"] == self._training else None

    def _write(self, failure: str) -> None:
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        # Nobody is to read half of it.
        with open(f"{self._path}.new", "w", encoding="utf-8") as file:
            json.dump({"training": self._training, "failure": failure}, file)
        os.replace(f"{self._path}.new", self._path)


@dataclass(frozen=True)
class Pace:
    """Timing of an evaluator, in seconds.

    Attributes:
        start_delay_secs: before it looks for the first checkpoint, unless training ends earlier.
        throttle_secs: the minimum between the beginnings of two evaluations; not before the last.
        timeout_secs: for a new checkpoint.
    """

    start_delay_secs: float
    throttle_secs: float
    timeout_secs: float


def evaluate_until_end(
    evaluate: Callable[[str, bool], int],
    newest: Callable[[], str | None],
    note: EndNote,
    pace: Pace,
    *,
    last_step: int | None,
) -> None:
    """Evaluate the newest checkpoint again and again, until training is over.

    Args:
        evaluate: evaluates a checkpoint, given whether training is over; returns its step.
        newest: returns the newest checkpoint, or None.
        note: the chief's.
        pace: the timing.
        last_step: the step at which training ends; None for the end of the data.

    Raises:
        ClusterError: Training failed, or no new checkpoint appeared in time.
        CheckpointError: A checkpoint does not load.
    """
    begun = time.monotonic()
    next_time, deadline = begun + pace.start_delay_secs, begun + pace.start_delay_secs + pace.timeout_secs
    done: str | None = None
    while True:
        # Read first: what is newest after the end is the last one.
        end = note.read()
        found = newest() if end is not None or time.monotonic() >= next_time else None
        if found is not None and found != done:
            next_time = time.monotonic() + pace.throttle_secs
            step = _evaluated(evaluate, newest, found, is_over=end is not None)
            if step is None:
                continue
            done, deadline = found, max(next_time, time.monotonic()) + pace.timeout_secs
            if last_step is not None and step >= last_step:
                return
        elif end is not None:
            _check_end(end, done)
            return
        elif time.monotonic() > deadline:
            raise ClusterError(
                f"the evaluator has seen no new checkpoint for {pace.timeout_secs:g} s, and training has not ended; "
                f"the last one was {done}"
            )
        else:
            time.sleep(_POLL_SECS)


def _evaluated(
    evaluate: Callable[[str, bool], int], newest: Callable[[], str | None], found: str, *, is_over: bool
) -> int | None:
    """Evaluate a checkpoint and return its step; None if a newer one has replaced it meanwhile."""
    try:
        return evaluate(found, is_over)
    except CheckpointError:
        if newest() == found:
            raise
        logger.info(f"{found} was removed before it was evaluated: there are newer ones.")
        return None


def _check_end(failure: str, done: Any) -> None:
    if failure:
        raise ClusterError(f"training failed, says the chief: {failure}")
    if done is None:
        raise ClusterError("training has ended, and it has left no checkpoint to evaluate")
