"""Trainers of tower functions, of models with one cost, and of any `GraphBuilder`; the callbacks of their graphs."""

import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.callbacks.monitors.base import MonitorBase
from tpack.errors import ConfigError, NumericsError, TowerError
from tpack.graph_builder.base import GradFn, GraphBuilder, OptimizerFn, SyncOp
from tpack.graph_builder.compiled import Compile, TowerCompiler, as_compile_policy
from tpack.graph_builder.cost import GradientOptions, make_grad_fn, statistics_of_towers
from tpack.graph_builder.model_desc import ModelDesc
from tpack.graph_builder.precision import LossScaling, PrecisionPolicy, as_precision_policy
from tpack.graph_builder.predict import build_predict_tower
from tpack.input_source.base import InputSource
from tpack.tfutils.optimizer_clone import check_optimizer
from tpack.tfutils.sesscreate import NewSessionCreator
from tpack.tfutils.sessinit import DictRestore, SessionInit
from tpack.tower.tower_func import TowerFunc, TowerHandle, TowerHandles
from tpack.train.trainer import Trainer
from tpack.utils import logger
from tpack.utils.lazy import LazyModule
from tpack.utils.renames import set_tower_func
from tpack.utils.validation import check_arguments, check_function, check_instance

if TYPE_CHECKING:
    from tpack.predict.online import OnlinePredictor

_offline = LazyModule("tpack.predict.offline")
_online = LazyModule("tpack.predict.online")
_predict_config = LazyModule("tpack.predict.config")
_predict_towers = LazyModule("tpack.predict.towers")
_loss_scale = LazyModule("tpack.graph_builder.loss_scale")


class TowerTrainer(Trainer):
    """Base of trainers that build a model by calling a tower function.

    A subclass sets `tower_func`, calls it once in each tower and sets ``train_op``; a model with several costs, such as
    a GAN, does so in its ``__init__``.

    Attributes:
        compiler: marks the towers' operations for XLA; None compiles nothing.
    """

    compiler: TowerCompiler | None = None

    def __init__(self) -> None:
        super().__init__()
        self._tower_func: TowerFunc | None = None

    @property
    def tower_func(self) -> TowerFunc:
        """The tower function; raise a `TowerError` before it is set, a `ConfigError` for another object."""
        if self._tower_func is None:
            raise TowerError(f"{type(self).__name__} has no tower function yet: set trainer.tower_func first")
        return self._tower_func

    @tower_func.setter
    def tower_func(self, tower_func: TowerFunc) -> None:
        """Set the tower function.

        Raises:
            ConfigError: It is not a `TowerFunc`.
        """
        self._tower_func = check_instance(self, "tower_func", tower_func, TowerFunc)

    set_tower_func = set_tower_func

    @property
    def input_signature(self) -> list[Any]:
        """The inputs of the tower function, as ``tf.TensorSpec``."""
        return self.tower_func.input_signature

    @property
    def towers(self) -> TowerHandles:
        """A handle of each tower built so far."""
        return self.tower_func.towers

    def get_predictor(
        self, input_names: Sequence[str], output_names: Sequence[str], device: int = 0
    ) -> "OnlinePredictor":
        """Return a predictor of numpy data with the current weights; after training with those of its end.

        Before and during training the first call for a device builds a tower there, so it belongs into ``_setup_graph``
        of a callback. After training the predictor has a graph and a session of its own.

        Args:
            input_names: names of inputs, or of any other tensors to feed.
            output_names: names of tensors to fetch.
            device: a GPU number, or -1 for the CPU.

        Raises:
            TowerError: A tensor is missing, or training has started.
            ConfigError: Training has ended without weights; see `get_weights`.
            DeviceError: The machine has GPUs, but not this one.
        """
        if self._has_ended:
            return self._predictor_of_weights(input_names, output_names, device)
        tower = self._predict_tower(device)
        inputs, outputs = tower.get_tensors(input_names), tower.get_tensors(output_names)
        if self.compiler is not None and not self.graph.finalized:
            self.compiler.mark(tower.context, outputs)
        predictor: OnlinePredictor = _online.OnlinePredictor(inputs, outputs)
        return predictor

    def _predictor_of_weights(
        self, input_names: Sequence[str], output_names: Sequence[str], device: int
    ) -> "OnlinePredictor":
        """Return a predictor in a new graph with the weights of the end of training."""
        config = _predict_config.PredictConfig(
            tower_func=self.tower_func,
            input_names=input_names,
            output_names=output_names,
            session_init=DictRestore(self.get_weights()),
            session_creator=NewSessionCreator(config=tf.ConfigProto(device_count={"GPU": 0})) if device == -1 else None,
        )
        if device > 0:
            predictor: OnlinePredictor = _predict_towers.MultiTowerOfflinePredictor(config, [device]).get_predictor(0)
        else:
            predictor = _offline.OfflinePredictor(config)
        return predictor

    def _predict_tower(self, device: int) -> TowerHandle:
        name = f"tower-pred-{'cpu' if device == -1 else device}"
        for tower in self.towers:
            if tower.name == name:
                return tower
        if self.graph.finalized:
            raise TowerError("get_predictor was called after training began: expected it in _setup_graph of a callback")
        main = self.towers.training()
        with self.graph.as_default():
            return build_predict_tower(
                self.tower_func,
                self._placeholders,
                name=name,
                device=device,
                vs_name=main[0].vs_name if main else "",
                compiler=self.compiler,
            )

    def _placeholders(self) -> list[Any]:
        return [tf.placeholder(spec.dtype, spec.shape, spec.name) for spec in self.input_signature]


@check_arguments
class SingleCostTrainer(TowerTrainer):
    """Base of trainers that minimise one cost.

    The mean of the towers' costs is the statistic ``cost``.

    Args:
        precision: the dtype of computation: ``"float32"``, ``"bfloat16"``, ``"float16"`` or a `PrecisionPolicy`.
            Variables stay in float32. In float16 the cost is scaled, and steps whose gradients overflow are skipped;
            ``loss_scale`` and ``skipped_steps`` go to the monitors.
        compile: ``"xla"`` or a `CompilePolicy` compiles each tower, forward and backward; None does not; ``"auto"``
            makes the first steps both ways and keeps the faster.

    Attributes:
        precision: a `PrecisionPolicy`.
        model: the model description, from `launch_train_with_config` on.
        COLOCATE_GRADIENTS_WITH_OPS: compute gradients on the device of the forward op.
        GATE_GRADIENTS: wait for all gradients before any is used.
        AGGREGATION_METHOD: TensorFlow's method to add the gradients of a tensor that is used several times.
    """

    COLOCATE_GRADIENTS_WITH_OPS = True
    GATE_GRADIENTS = False
    AGGREGATION_METHOD = tf.AggregationMethod.DEFAULT

    def __init__(self, *, precision: str | PrecisionPolicy = "float32", compile: Compile = None) -> None:
        super().__init__()
        self.precision = as_precision_policy(precision)
        policy = as_compile_policy(compile)
        self.compiler = None if policy is None else TowerCompiler(policy)
        self.is_compiled = self.compiler is not None
        self.model: ModelDesc | None = None

    def setup_graph(
        self,
        input_signature: Sequence[tf.TensorSpec | tf.Tensor],
        input: InputSource,
        get_cost_fn: Callable[..., Any],
        get_opt_fn: OptimizerFn,
    ) -> None:
        """Build the training graph.

        Args:
            input_signature: a ``tf.TensorSpec`` for each input.
            input: the input source.
            get_cost_fn: builds the model from the input tensors and returns the cost.
            get_opt_fn: returns the optimizer; called once, after the first tower's cost was built.

        Raises:
            ConfigError: An argument is of the wrong type, or the trainer was used before.
            GraphBuildError: The cost, the variables or the optimizer cannot be trained.
            TowerMismatchError: The towers differ.
        """
        self.check_is_new()
        check_instance("setup_graph", "input", input, InputSource)
        check_function("setup_graph", "get_opt_fn", get_opt_fn, "a function that returns the optimizer")
        with self.graph.as_default():
            plain = TowerFunc(get_cost_fn, input_signature)
            self.tower_func = TowerFunc(self.precision.wrap(get_cost_fn, plain.input_names), plain.input_signature)
            self.input_source = input
            self.register_callback(input.setup(self.tower_func.input_signature))
            optimizers = _Optimizers(get_opt_fn, self.precision.loss_scaling)
            options = GradientOptions(self.COLOCATE_GRADIENTS_WITH_OPS, self.GATE_GRADIENTS, self.AGGREGATION_METHOD)
            grad_fn = make_grad_fn(
                input.get_input_tensors, self.tower_func, optimizers.get, options, compiler=self.compiler
            )
            self.register_callback(self._setup_graph(grad_fn, optimizers.get))
            self.register_callback(optimizers.callbacks())
            self.statistics = statistics_of_towers(self.towers.training())
            if optimizers.loss_scale is None:
                self.costs = [next(iter(self.statistics.values()))]
            else:
                # A step whose cost is not finite is skipped; later ones may be fine.
                self._adapt(optimizers.loss_scale)
                self.register_callback(LossScaleReport(optimizers.loss_scale, checks_cost=self.checks_cost))

    def _adapt(self, loss_scale: Any) -> None:
        """Adapt a `DynamicLossScale` where gradients are applied."""
        self.train_op = tf.group(self.train_op, loss_scale.update(), name="scaled_train_op")

    def follow_chief(self, config: Any) -> None:
        """Start the config of one of several workers where the chief's does; one machine has nothing to do."""

    def export_keras(self, path: str | os.PathLike[str]) -> None:
        """Write the Keras model to a ``.keras`` file; raise a `ConfigError` for a model that is not a `KerasModel`."""
        export = getattr(self.model, "export_keras", None)
        if export is None:
            raise ConfigError(
                f"export_keras is for trainers of a KerasModel, and this one "
                f"{'has none yet' if self.model is None else f'trains a {type(self.model).__name__}'}"
            )
        export(path)

    def check_is_new(self) -> None:
        """Raise a `ConfigError` if the graph was set up before."""
        if self._tower_func is not None:
            raise ConfigError(f"this {type(self).__name__} was used before: use a new one, in a new graph")

    def setup_callbacks(self, callbacks: Sequence[Callback], monitors: Sequence[MonitorBase]) -> None:
        """Register callbacks and monitors, let them add to the graph, and copy the step if both ways are measured.

        Raises:
            ConfigError: ``compile="auto"`` and several steps per call; else as `Trainer.setup_callbacks`.
        """
        if self.compiler is None or not self.compiler.measures:
            super().setup_callbacks(callbacks, monitors)
            return
        if self.steps_per_call != 1:
            raise ConfigError(
                f'compile="auto" got steps_per_call={self.steps_per_call!r}: expected 1, since it measures single '
                'steps; use compile="xla" or None'
            )
        super().setup_callbacks(callbacks, monitors)
        with self.graph.as_default():
            self._compiled_step = self.compiler.copy_step()

    def _initialize_session(self, session_init: SessionInit, *, is_new: bool) -> None:
        super()._initialize_session(session_init, is_new=is_new)
        runs_uncompiled = self.compiler is None or (self.compiler.measures and self._compiled_step is None)
        if self.compiler is not None and not runs_uncompiled:
            self.compiler.check(self.sess)

    @abstractmethod
    def _setup_graph(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> list[Callback]:
        """Set ``train_op`` and return the callbacks that the graph needs."""


@check_arguments
class BuilderTrainer(SingleCostTrainer):
    """Trains on any `GraphBuilder`.

    Attributes:
        reduction: the reducer and the reason of its choice, for the log; empty where that is logged elsewhere.

    Raises:
        ConfigError: It is not a `GraphBuilder`, or the precision or compile mode is unknown.

    Example:
        launch_train_with_config(config, BuilderTrainer(MyBuilder(...)))
    """

    reduction = ""

    def __init__(
        self, builder: GraphBuilder, *, precision: str | PrecisionPolicy = "float32", compile: Compile = None
    ) -> None:
        super().__init__(precision=precision, compile=compile)
        self.builder = builder
        self._syncs: list[SyncEverySteps] = []

    @property
    def devices(self) -> tuple[str, ...]:
        """The canonical device of each tower."""
        return self.builder.devices

    def _setup_graph(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> list[Callback]:
        result = self.builder.build(grad_fn, optimizer_fn)
        self.train_op = result.train_op
        self.gradients = None if self.precision.loss_scaling is not None else result.gradients
        if result.init_op is not None:
            self._init_ops.append(result.init_op)
            self._set_by_init_ops.extend(result.copies)
        callbacks = [sync_callback(sync_op) for sync_op in result.sync_ops]
        self._syncs = [each for each in callbacks if isinstance(each, SyncEverySteps)]
        return callbacks

    def _adapt(self, loss_scale: Any) -> None:
        applying = [sync for sync in self._syncs if sync.num_steps is not None]
        if not applying:
            super()._adapt(loss_scale)
        for sync in applying:
            sync.op = tf.group(sync.op, loss_scale.update(sync.num_steps), name="scaled_sync_op")

    def synchronize(self) -> None:
        """Run the operations that synchronise the towers every several steps, if steps were made since the last time.

        All processes call it after the same step.
        """
        for sync in self._syncs:
            sync.run_if_due()


class _Optimizers:
    """The user's optimizer, created on first use and wrapped where the cost is scaled."""

    def __init__(self, get_opt_fn: OptimizerFn, scaling: LossScaling | None) -> None:
        self._get_opt_fn, self._scaling = get_opt_fn, scaling
        self._optimizer: tf.train.Optimizer | None = None
        self.loss_scale: Any = None

    def callbacks(self) -> list[Callback]:
        """Return the callbacks of the optimizer and those inside of it, which follow the progress of training."""
        found: list[Callback] = []
        optimizer = self._optimizer
        while optimizer is not None:
            found += optimizer.callbacks() if hasattr(optimizer, "callbacks") else []
            optimizer = getattr(optimizer, "inner", None)
        return found

    def get(self) -> tf.train.Optimizer:
        if self._optimizer is None:
            self._optimizer = self._get_opt_fn()
            if self._scaling is not None:
                check_optimizer(self._optimizer)
                self.loss_scale = _loss_scale.DynamicLossScale(self._scaling)
                self._optimizer = _loss_scale.LossScaleOptimizer(self._optimizer, self.loss_scale)
        return self._optimizer


def sync_callback(sync_op: SyncOp) -> Callback:
    """Return the callback that runs a `SyncOp` at its times."""
    return SyncBeforeEpoch(sync_op.op) if sync_op.every_steps is None else SyncEverySteps(sync_op)


class SyncBeforeEpoch(Callback):
    """Copies the main tower's variables to the other towers before each epoch, as the last callback.

    So all towers have the changes of callbacks, such as loaded or clipped weights, at the first step of an epoch, and
    start it with equal statistics, such as those of batch normalisation.
    """

    _chief_only = False
    passes_changes_on = True

    def __init__(self, op: tf.Operation) -> None:
        self._op = op

    def _before_epoch(self) -> None:
        self.trainer.sess.run(self._op)


class SyncEverySteps(Callback):
    """Synchronises the towers every so many steps of an epoch, after its last one, and where training is stopped.

    Callbacks that save or validate the main tower's variables after an epoch, or after a stop between two steps, see
    the result of all towers. Where a run is resumed in an epoch, it goes on counting its steps.

    Attributes:
        op: the operation.
        num_steps: see `SyncOp`.
    """

    _chief_only = False

    def __init__(self, sync_op: SyncOp) -> None:
        self.op, self.num_steps = sync_op.op, sync_op.num_steps
        self._sync_op = sync_op
        self._synced_at = 0

    def _before_train(self) -> None:
        self._synced_at = self.global_step

    def _trigger_step(self) -> None:
        every_steps = self._sync_op.steps_in_epoch(self.epoch_num)
        if self.local_step % every_steps == 0 or self.local_step >= self.trainer.steps_per_epoch:
            self.run_if_due()

    def _with_several_steps(self) -> WithSteps:
        def steps_left() -> int:
            every_steps = self._sync_op.steps_in_epoch(self.epoch_num)
            return every_steps - self.local_step % every_steps

        return WithSteps(steps_left=steps_left)

    def _after_train(self) -> None:
        if self.trainer.interrupted or self.trainer.was_stopped:
            self.run_if_due()

    def run_if_due(self) -> None:
        """Synchronise the towers if steps were made since the last time."""
        if self.global_step != self._synced_at:
            self.trainer.run_between_steps(self.op)
            self._synced_at = self.global_step


class LossScaleReport(Callback):
    """Reports ``loss_scale`` and ``skipped_steps``, counted from the first step, each epoch.

    An epoch of skipped steps is a warning, since the gradients themselves are infinite or NaN then; with
    ``checks_cost`` it is an error once the factor cannot shrink any further.
    """

    _chief_only = False

    def __init__(self, loss_scale: Any, *, checks_cost: bool = True) -> None:
        self._scale, _, self._skipped_steps = loss_scale.variables
        self._smallest = loss_scale.smallest
        self._checks_cost = checks_cost
        self._was_smallest = False
        self._skipped_before = 0
        self._steps_before = 0

    def _before_train(self) -> None:
        self._note(*self.trainer.sess.run([self._scale, self._skipped_steps]))

    def _note(self, scale: float, skipped: int) -> None:
        self._was_smallest = scale <= self._smallest
        self._skipped_before, self._steps_before = int(skipped), self.global_step

    def _trigger_epoch(self) -> None:
        scale, skipped = self.trainer.sess.run([self._scale, self._skipped_steps])
        self.trainer.monitors.put_scalar("loss_scale", float(scale))
        self.trainer.monitors.put_scalar("skipped_steps", int(skipped))
        num_steps, num_skipped = self.global_step - self._steps_before, int(skipped) - self._skipped_before
        if num_skipped == num_steps > 0:
            if self._checks_cost and self._was_smallest:
                raise NumericsError(
                    f"all {num_steps} steps of epoch {self.epoch_num} were skipped: their gradients are not finite "
                    f"with the cost scaled by {scale:g}. Find the first bad tensor with CheckNumerics(run_step=True)"
                )
            logger.warning(
                f"All {num_steps} steps of epoch {self.epoch_num} were skipped, since their gradients are not finite: "
                "nothing was learned. If this continues, the cost itself is infinite or NaN"
            )
        self._note(scale, skipped)
