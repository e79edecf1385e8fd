"""Prefetching to each tower's device, one or more steps ahead, so that copying takes no time of the step."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.input_source.base import FeedfreeInput, InputSource
from tpack.input_source.dequeue import DataWaitReport, GraphSum, now
from tpack.input_source.proxy import ProxyInput
from tpack.tower.devices import resolve_device
from tpack.utils.validation import check_arguments, check_count, check_instance


@check_arguments
class StagingInput(ProxyInput, FeedfreeInput):
    """Wrapper that passes another source's tensors through a staging area on each tower's device.

    The areas are filled before the first step. Every hooked run then takes from all areas and puts into all of them,
    whether or not it uses the data. The last ``nr_stage`` data points of a finite source are never used.

    Args:
        input: a source without feeds.
        nr_stage: the number of steps ahead.
        device: the device of the areas; None means that of `get_input_tensors`, the tower's.

    Raises:
        ConfigError: ``input`` needs feeds, ``nr_stage`` is less than 1, or the device is malformed.
        DeviceError: The machine has GPUs, but not this one.
    """

    def __init__(self, input: InputSource, nr_stage: int = 1, device: str | None = None) -> None:
        super().__init__(input)
        check_instance(self, "input", input, FeedfreeInput, "a source that needs no feed, such as QueueInput")
        check_count(self, "nr_stage", nr_stage)
        self._device = None if device is None else resolve_device(device)
        self._areas: list[_StagingArea] = []
        self._nr_stage = nr_stage
        self._callback = StagingInput.StagingCallback(self, nr_stage)

    class StagingCallback(Callback):
        """Fills the areas with ``nr_stage`` data points before training, and adds staging to every hooked run."""

        _chief_only = False

        def __init__(self, source: StagingInput, nr_stage: int) -> None:
            self._source = source
            self._nr_stage = nr_stage
            self._stage: tf.Operation | None = None
            self._clear: tf.Operation | None = None
            self._fetches: tf.train.SessionRunArgs | None = None
            self._timed_fetches: tf.train.SessionRunArgs | None = None
            self._waited_secs: GraphSum | None = None

        def refill(self, session: tf.Session) -> None:
            """Empty and fill the areas, once the graph is set up; raise InputError if the source has failed."""
            if self._stage is None:
                return
            try:
                session.run(self._clear)
                for _ in range(self._nr_stage):
                    session.run(self._stage)
            except tf.errors.OpError:
                self._source.raise_failure()
                raise

        def _setup_graph(self) -> None:
            areas = self._source.areas
            self._stage = tf.group(*(area.stage for area in areas), name="stage")
            self._clear = tf.group(*(area.clear for area in areas), name="clear")
            unstage = tf.group(*(area.outputs[0].op for area in areas), name="unstage")
            # The same tuples at each step, which keeps the step on its fast path.
            self._fetches = tf.train.SessionRunArgs(fetches=(self._stage, unstage))
            if self.trainer.train_op is not None:
                self._waited_secs = GraphSum(tf.float64, "waited")
                with tf.control_dependencies(tf.nest.flatten(self.trainer.train_op)):
                    trained = now()
                with tf.control_dependencies([self._stage]):
                    staged = now()
                timing = self._waited_secs.add(tf.maximum(staged - trained, 0))
                self._timed_fetches = tf.train.SessionRunArgs(fetches=(self._stage, unstage, timing))

        def waited(self) -> float | None:
            """Return the seconds that steps waited for staging; None where that is unknown."""
            return None if self._waited_secs is None else self._waited_secs.value()

        def _before_train(self) -> None:
            if self._waited_secs is not None:
                self._waited_secs.connect(self.trainer.sess)
            self.refill(self.trainer.sess)

        def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
            # Other runs must not run the train op.
            is_step = self._waited_secs is not None and ctx.original_args.fetches is self.trainer.train_op
            return self._timed_fetches if is_step else self._fetches

        def _with_several_steps(self) -> WithSteps | None:
            return None if self._timed_fetches is None else WithSteps(each=self._timed_fetches.fetches)

    @property
    def areas(self) -> Sequence[_StagingArea]:
        """The staging area of each tower."""
        return tuple(self._areas)

    def mark_prefetched(self, num_times: int) -> None:
        """Do nothing: data in the areas are counted already."""

    def raise_failure(self) -> None:
        """Raise the error of the inner source, if it failed."""
        for callback in self.input.get_callbacks():
            failure = callback.failure()
            if failure is not None:
                raise failure

    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        # No step has used the data in the areas.
        self.input.mark_prefetched(self._nr_stage)
        tensors = super()._get_input_tensors()
        # tf.device(None) would remove the tower's device.
        device = nullcontext() if self._device is None else tf.device(self._device)
        with self.cached_name_scope(), device:
            area = _StagingArea(tensors)
        self._areas.append(area)
        return area.outputs

    def _get_callbacks(self) -> Sequence[Callback]:
        return [self._callback, DataWaitReport(str(self), self._callback.waited)]

    def _reset_state(self) -> None:
        super()._reset_state()
        self._callback.refill(self._require_session())


class _StagingArea:
    """Buffer on the current device: ``stage`` puts tensors in, ``outputs`` waits for the oldest and takes them out."""

    def __init__(self, tensors: Sequence[tf.Tensor]) -> None:
        dtypes = [tensor.dtype for tensor in tensors]
        # The session identifies the areas of a device by this name alone.
        name = tf.get_default_graph().unique_name("staging_area", mark_as_used=True)
        self.stage = tf.raw_ops.Stage(values=list(tensors), shared_name=name, name="stage")
        self.outputs = list(tf.raw_ops.Unstage(dtypes=dtypes, shared_name=name, name="unstage"))
        self.clear = tf.raw_ops.StageClear(dtypes=dtypes, shared_name=name, name="clear")
        for output, tensor in zip(self.outputs, tensors, strict=True):
            output.set_shape(tensor.shape)
