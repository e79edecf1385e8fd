"""The trainer of several workers with replicas: what travels between them, and how often, are its arguments."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import LONG_WAIT_SECS, Callback
from tpack.errors import ConfigError
from tpack.graph_builder.accumulation import check_steps
from tpack.graph_builder.base import GradFn, GraphBuilder, OptimizerFn
from tpack.graph_builder.compiled import Compile
from tpack.graph_builder.precision import PrecisionPolicy
from tpack.graph_copy.towers import TowerBuilding
from tpack.input_source.base import InputSource
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.optimizer_fingerprint import fingerprint_of_optimizer
from tpack.multi_worker.replicated_builder import MultiWorkerReplicatedBuilder
from tpack.multi_worker.tables.embedding import tables_here
from tpack.multi_worker.trainer import MultiWorkerTrainer, WaitLimits
from tpack.multi_worker.uneven import CheckUnevenData, UnevenInput, flow_of_uneven_data
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.reduction.modes import ReductionMode, reducer_for_towers
from tpack.schedules import Schedule
from tpack.tfutils.sessinit import SessionInit
from tpack.utils.launch_env import ClusterRank
from tpack.utils.lazy import LazyModule
from tpack.utils.tf_config import ClusterTask
from tpack.utils.validation import check_arguments

_local_steps = LazyModule("tpack.multi_worker.local_steps")
_names = LazyModule("tpack.multi_worker.codecs.names")
_options = LazyModule("tpack.graph_builder.local_steps")
_sharded = LazyModule("tpack.multi_worker.sharded_builder")


@check_arguments
class MultiWorkerTrainerReplicated(MultiWorkerTrainer):
    """Train K towers with their own variables in each of W workers, with gradients all-reduced over all of them.

    Every worker runs the same script, which a launcher has started as several processes (``tpack launch``, ``srun``,
    ``mpirun``, a Job of Kubernetes); alone, it trains as `SyncMultiGPUTrainerReplicated` does.

    Args:
        gpus: the number of towers of each worker, or the numbers of their GPUs; as many in all workers.
        average: average the gradients, or sum them.
        mode: as for `SyncMultiGPUTrainerReplicated`, inside a worker.
        accumulate: the number of steps whose gradients are summed in each tower, then exchanged and applied once; a
            `Schedule` gives that of each epoch. A stop takes effect after the next exchange.
        wire_dtype: ``"bfloat16"`` or ``"float16"`` rounds gradients for the network between workers; see `Exchange`.
        shard_optimizer: divide the state of the optimizer over the towers of all workers: each variable has one owner,
            which updates it and alone has its slots.
        exchange: what travels between workers: an `Exchange`, or text such as ``"int8"``; see `make_exchange`.
        sync_every_steps: each tower applies its own gradients, and the weights of all towers of all workers are
            averaged every so many steps; see `LocalSteps`. A stop takes effect after the next average.
        outer_optimizer: see `LocalSteps`.
        inner_state: see `LocalSteps`.
        cluster: the place of this process; None calls `resolve_cluster`.
        waits: the timeouts.
        precision: see `SingleCostTrainer`.
        compile: see `SingleCostTrainer`.
        tower_building: as for `DataParallelBuilder`.

    Raises:
        ConfigError: An argument is out of range, or the process is not a worker.
        ClusterError: The workers do not find each other.

    Example:
        launch_train_with_config(config, MultiWorkerTrainerReplicated(8))
    """

    def __init__(
        self,
        gpus: int | Sequence[int],
        average: bool = True,
        mode: ReductionMode = None,
        *,
        accumulate: int | Schedule = 1,
        wire_dtype: str | tf.DType | None = None,
        shard_optimizer: bool = False,
        exchange: Exchange | str | None = None,
        sync_every_steps: int | Schedule | None = None,
        outer_optimizer: tf.train.Optimizer | None = None,
        inner_state: str = "keep",
        cluster: ClusterMember | ClusterTask | ClusterRank | None = None,
        waits: WaitLimits | None = None,
        precision: str | PrecisionPolicy = "float32",
        compile: Compile = None,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        is_plain = exchange is None
        wanted = Exchange(wire_dtype) if is_plain else _names.exchange_of_options(self, exchange, wire_dtype)
        choice = reducer_for_towers(gpus, mode)
        check_steps(self, "accumulate", accumulate)
        self.reduction = str(choice)
        steps = None
        if (sync_every_steps, outer_optimizer, inner_state) != (None, None, "keep"):
            steps = _options.local_steps_of(
                self,
                sync_every_steps,
                outer_optimizer,
                inner_state,
                accumulate=(accumulate, 1),
                shard_optimizer=(shard_optimizer, False),
                average=(average, True),
                wire_dtype=(getattr(wanted.wire_dtype, "name", None), None),
                exchange=(exchange if wanted.codec is not None or wanted.op is not None else None, None),
            )

        def make_builder(group: WorkerGroup) -> GraphBuilder:
            options: dict[str, Any] = {
                "reducer": choice.reducer,
                "exchange": dataclasses.replace(wanted, arrivals=self.arrivals),
                "stop_flag": self.stop_flag,
                "tower_building": tower_building,
            }
            if steps is not None:
                return _local_steps.MultiWorkerLocalStepsBuilder(gpus, group, steps, **options)
            make = _sharded.MultiWorkerShardedBuilder if shard_optimizer else MultiWorkerReplicatedBuilder
            return make(gpus, group, average=average, accumulate=accumulate, **options)

        self._settings = {
            "average": average,
            "the reducer": choice.reducer.name,
            "the exchange": repr(wanted),
            "steps between two exchanges": repr(accumulate),
            "shard_optimizer": shard_optimizer,
            "sync_every_steps": repr(sync_every_steps),
            "outer_optimizer": None if outer_optimizer is None else fingerprint_of_optimizer(outer_optimizer),
            "inner_state": inner_state,
        }
        self._not_uneven = {
            "accumulate": (accumulate, 1),
            "shard_optimizer": (shard_optimizer, False),
            "sync_every_steps": (sync_every_steps, None),
            "exchange": (wanted.op, None),
        }
        self._is_sharded = shard_optimizer
        super().__init__(make_builder, cluster, waits=waits, precision=precision, compile=compile)

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), **self._settings}

    def _prepared(self, source: InputSource) -> InputSource:
        """Return the source that takes the weights out of an `UnevenData`, or the source itself."""
        flow = flow_of_uneven_data(source) if isinstance(source, InputSource) else None
        if flow is None:
            return source
        given = (f"{name}={value!r}" for name, (value, plain) in self._not_uneven.items() if value != plain)
        if refused := next(given, ""):
            raise ConfigError(
                f"{type(self).__name__} got {refused} and UnevenData: expected gradients that are averaged in each "
                "step; use one of the two"
            )
        self.register_callback(CheckUnevenData(flow, len(self.devices), self.peers))
        return UnevenInput(source)

    def _setup_graph(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> list[Callback]:
        callbacks = super()._setup_graph(grad_fn, optimizer_fn)
        if self._is_sharded and not self.is_alone:
            own_slots = getattr(self.builder, "slots", ())
            slots = _sharded.share_slots(self.group, self.peers, own_slots, is_chief=self.is_chief)
            self._apart = slots.names
            self._set_by_init_ops.extend(slots.remote)
        tables = tables_here()
        if tables is not None:
            self._apart |= {variable.op.name for variable in tables.variables}
            self._set_by_init_ops.extend(tables.variables)
        return callbacks

    def _first_values(self, session_init: SessionInit | None) -> SessionInit | None:
        if not self._is_sharded and not self._apart:
            return session_init
        first_values: SessionInit = _sharded.AfterInitialValues(self.peers, session_init)
        return first_values

    def _finish(self, *, has_failed: bool) -> None:
        super()._finish(has_failed=has_failed)
        if self._apart and not has_failed:
            # The chief may still read the last values from this process's server.
            self.peers.barrier("the last values of what is divided", timeout_secs=LONG_WAIT_SECS)
