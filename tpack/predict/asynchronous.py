"""Batched prediction of data points from many threads."""

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, DataPointError
from tpack.predict.online import OnlinePredictor
from tpack.utils.concurrency import StoppableThread
from tpack.utils.validation import check_arguments, check_count, check_instances

_QUEUE_SIZE_FOR_EACH = 100
"""The data points that may wait for each predictor before `put_task` waits."""

_Task = tuple[Sequence[Any], Future[list[Any]]]


@check_arguments
class MultiThreadAsyncPredictor:
    """Predictor with a thread for each of several predictors, which batches waiting data points.

    A free thread takes the waiting data points, up to ``batch_size``, and predicts them as one batch: so batches grow
    with the load. It suits predictions for many simulators.

    Args:
        predictors: usually those of a `MultiTowerOfflinePredictor`.
        batch_size: the most data points of a batch.

    Raises:
        ConfigError: ``predictors`` is not a list of `OnlinePredictor`, or one returns its input, or ``batch_size`` is
            below one.

    Example:
        with MultiThreadAsyncPredictor(predictor.get_predictors(), batch_size=16) as predictor:
            futures = [predictor.put_task([state]) for state in states]
            actions = [future.result()[0] for future in futures]
    """

    def __init__(self, predictors: Sequence[OnlinePredictor], batch_size: int = 5) -> None:
        predictors = check_instances(self, "predictors", predictors, OnlinePredictor, least=1)
        if any(predictor.return_input for predictor in predictors):
            raise ConfigError("MultiThreadAsyncPredictor got predictors with return_input=True: expected False")
        check_count(self, "batch_size", batch_size)
        self._tasks: queue.Queue[_Task] = queue.Queue(maxsize=_QUEUE_SIZE_FOR_EACH * len(predictors))
        self._threads = [
            _PredictThread(number, predictor, self._tasks, batch_size) for number, predictor in enumerate(predictors)
        ]
        self._state = "new"

    def start(self) -> None:
        """Start the threads; predictors without a session use the present default session.

        Raises:
            ConfigError: They were started before.
        """
        if self._state != "new":
            raise ConfigError(f"MultiThreadAsyncPredictor cannot start again, it is {self._state}: make a new one")
        self._state = "started"
        for thread in self._threads:
            thread.session = tf.get_default_session()
            thread.start()

    def put_task(
        self, dp: Sequence[Any], callback: Callable[[Future[list[Any]]], Any] | None = None
    ) -> Future[list[Any]]:
        """Submit one data point; wait while too many are waiting.

        Args:
            dp: the components of one data point, without a batch dimension.
            callback: called with the finished future, in the predicting thread.

        Returns:
            A ``concurrent.futures.Future`` of the list of outputs for this data point, or of the error of this one
            alone.

        Raises:
            ConfigError: The threads were not started, or were stopped.
        """
        future: Future[list[Any]] = Future()
        if callback is not None:
            future.add_done_callback(callback)
        # Any thread can wait for room: all are stopped together.
        if self._state == "new" or not self._threads[0].queue_put_stoppable(self._tasks, (dp, future)):
            raise ConfigError(
                f"MultiThreadAsyncPredictor takes data points between start() and stop(), and it is {self._state}"
            )
        if self._state == "stopped":
            self._cancel_waiting()
        return future

    def stop(self) -> None:
        """End the threads after their current batches, and cancel the futures of waiting data points."""
        was_started, self._state = self._state == "started", "stopped"
        for thread in self._threads:
            thread.stop()
        for thread in self._threads if was_started else ():
            thread.join()
        self._cancel_waiting()

    def __enter__(self) -> "MultiThreadAsyncPredictor":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _cancel_waiting(self) -> None:
        while True:
            try:
                _, future = self._tasks.get_nowait()
            except queue.Empty:
                return
            future.cancel()


class _PredictThread(StoppableThread):
    """Thread that works on tasks until stopped."""

    def __init__(self, number: int, predictor: OnlinePredictor, tasks: "queue.Queue[_Task]", batch_size: int) -> None:
        super().__init__(name=f"MultiThreadAsyncPredictor-{number}", daemon=True)
        self.session: tf.Session | None = None
        self._predictor = predictor
        self._tasks = tasks
        self._batch_size = batch_size

    def run(self) -> None:
        with self.session.as_default() if self.session is not None else nullcontext():
            while (first := self.queue_get_stoppable(self._tasks)) is not None:
                # A future that was cancelled while it waited is left out; the others can no longer be cancelled.
                tasks = [task for task in (first, *self._waiting()) if task[1].set_running_or_notify_cancel()]
                self._work_on(tasks)

    def _waiting(self) -> list[_Task]:
        """Return the waiting tasks, up to a batch less the first one."""
        tasks: list[_Task] = []
        while len(tasks) < self._batch_size - 1:
            try:
                tasks.append(self._tasks.get_nowait())
            except queue.Empty:
                break
        return tasks

    def _work_on(self, tasks: Sequence[_Task]) -> None:
        if not tasks:
            return
        try:
            results = self._predict([dp for dp, _ in tasks])
        except Exception as error:
            if len(tasks) > 1 and isinstance(error, DataPointError):
                # A wrong data point must not fail the others of its batch.
                for task in tasks:
                    self._work_on([task])
                return
            for _, future in tasks:
                future.set_exception(error)
            return
        for (_, future), result in zip(tasks, results, strict=True):
            future.set_result(result)

    def _predict(self, points: Sequence[Sequence[Any]]) -> list[list[Any]]:
        try:
            batch = [np.stack(component) for component in zip(*points, strict=True)]
        except (ValueError, TypeError) as error:
            raise DataPointError(f"{len(points)} data points do not make a batch: {error}") from error
        outputs = self._predictor(*batch)
        for output, tensor in zip(outputs, self._predictor.output_tensors, strict=True):
            if np.ndim(output) == 0 or len(output) != len(points):
                raise ConfigError(
                    f"MultiThreadAsyncPredictor expected one row for each data point: for a batch of {len(points)}, "
                    f"{tensor.name} is of shape {np.shape(output)}"
                )
        return [[output[number] for output in outputs] for number in range(len(points))]
