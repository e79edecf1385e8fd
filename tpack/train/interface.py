"""Launch of a training: the plan of a run, worked out once from config, trainer and debug options, and the run."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.monitors.run_file import write_failed_start
from tpack.errors import ConfigError, MissingNameError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.base import FeedfreeInput, InputSource
from tpack.step.step_seeds import begin_at_step
from tpack.tfutils.model_utils import describe_trainable_vars
from tpack.tfutils.sessinit import JustCurrentSession
from tpack.train.config import TrainConfig, seed_everything
from tpack.train.debug_options import DebugOptions
from tpack.train.interruption import ended_by_signals
from tpack.train.resume import AutoResumeTrainConfig, resume_data, share_data
from tpack.train.single_cost import BuilderTrainer, SingleCostTrainer
from tpack.utils import logger
from tpack.utils.lazy import LazyModule
from tpack.utils.renames import advice_for_lost_name, with_cost_attribute
from tpack.utils.validation import check_arguments, check_instance

_repeated = LazyModule("tpack.input_source.repeated")
_staging = LazyModule("tpack.input_source.staging")
_tensors = LazyModule("tpack.input_source.tensors")


@check_arguments
def launch_train_with_config(
    config: TrainConfig,
    trainer: SingleCostTrainer,
    *,
    fast_dev_run: bool | int = False,
    overfit_batches: int | None = None,
    limit_batches: float | None = None,
) -> None:
    """Build the graph of ``config.model`` with ``trainer`` and train it.

    A DataFlow is fed through a `QueueInput`; with several GPUs, batches of every source without feeds are staged on the
    devices. An epoch is one pass of all towers over the data, unless ``steps_per_epoch`` was given; the log states
    both. A parameter server trains nothing: it serves until the workers have ended.

    Args:
        config: the run.
        trainer: decides the devices and the reduction of gradients.
        fast_dev_run: run one epoch of one step, or of the given number, then all that comes at its end, with as many
            batches in each evaluation. Nothing is saved: callbacks that save and all but the printing monitors are left
            out.
        overfit_batches: repeat the data of the first ``overfit_batches`` steps, which reduces the cost of a model that
            can learn to almost zero. Without ``steps_per_epoch`` they are an epoch. Evaluations stay whole.
        limit_batches: the most steps of an epoch, and the most batches of each evaluation; a fraction such as 0.1 is
            relative.

    Raises:
        ConfigError: An argument is of the wrong type, the config was launched before or has no `ModelDesc`, a limit is
            out of range, or ``fast_dev_run`` is given with another one.
        KeyboardInterrupt: Ctrl-C; the trained variables are saved.
        SystemExit: SIGTERM; the trained variables are saved, and the exit code is 143.

    Example:
        launch_train_with_config(config, SyncMultiGPUTrainerReplicated(8))
    """
    options = DebugOptions(fast_dev_run, overfit_batches, limit_batches)
    model = check_instance("launch_train_with_config", "config.model", config.model, ModelDesc)
    trainer.check_is_new()
    if config.was_launched:
        raise ConfigError(
            f"launch_train_with_config got a {type(config).__name__} that was trained with before: expected a new one "
            "for each training, with new data and callbacks"
        )
    if trainer.serves:
        trainer.join()
        return
    if not fast_dev_run:
        config.enter_log_dir()
    plan = plan_run(config, model, trainer, options)
    plan.set_options(trainer)
    if config.seed is not None:
        seed_everything(config.seed, trainer.graph, rank=0 if trainer.peers is None else trainer.peers.rank)
    restart = int(os.environ.get("TPACK_RESTART_COUNT", "0"))
    if restart and not isinstance(config, AutoResumeTrainConfig) and type(config.session_init) is JustCurrentSession:
        logger.warning(
            f"This is restart {restart} of tpack launch, and training starts from the beginning: use "
            "AutoResumeTrainConfig in place of TrainConfig to resume from the last checkpoint."
        )
    logger.info(plan.description)
    try:
        _build_and_train(plan, trainer)
    except Exception as error:
        _explain(error, trainer)
        raise


def _explain(error: Exception, trainer: SingleCostTrainer) -> None:
    """Write down why a run failed before its first step.

    Raises:
        MissingNameError: The error is of a name of TensorFlow 1.
    """
    if trainer.hooked_sess is None:
        write_failed_start(trainer, error)
    advice = advice_for_lost_name(error, sys.argv[0] or "the script")
    if advice is not None:
        raise MissingNameError(advice) from error


def _build_and_train(plan: "RunPlan", trainer: SingleCostTrainer) -> None:
    config, model = plan.config, plan.model
    with trainer.graph.as_default():
        begin_at_step(plan.first_global_step)
    with ended_by_signals():
        trainer.begin_to_build()
        config.was_launched = True
        trainer.setup_graph(plan.signature, plan.data, with_cost_attribute(model), model.get_optimizer)
    trainer.register_callback(model.callbacks_for_training())
    with trainer.graph.as_default():
        describe_trainable_vars()
    names = "callbacks monitors session_creator session_init steps_per_epoch starting_epoch max_epoch extra_callbacks"
    trainer.train_with_defaults(**{name: getattr(config, name) for name in (*names.split(), "starting_step")})


@dataclass(frozen=True)
class RunPlan:
    """Decisions of `launch_train_with_config` before a trainer builds.

    Args:
        config: the config, whose numbers and callbacks are final.
        model: the model.
        signature: the inputs of the model.
        data: the input source, staged on the devices where that pays.
        checks_cost: whether a cost or variable that is not finite ends training.
        steps_per_call: the most steps of one session run.
        sanity_steps: the batches of each evaluation before the first step.
        description: the line for the log: data, precision, reduction and source.
        facts: the contents of ``run.json`` on the setup; None writes no such file.
    """

    config: TrainConfig
    model: ModelDesc
    signature: Sequence[tf.TensorSpec | tf.Tensor]
    data: InputSource
    checks_cost: bool
    steps_per_call: int
    sanity_steps: int
    description: str
    facts: dict[str, Any] | None

    @property
    def first_global_step(self) -> int:
        """The steps of all epochs that are finished when training begins."""
        return (self.config.starting_epoch - 1) * self.config.steps_per_epoch + self.config.starting_step

    def set_options(self, trainer: SingleCostTrainer) -> None:
        """Set the attributes of a trainer that the plan decides, before it builds."""
        trainer.model = self.model
        trainer.run_facts = self.facts
        trainer.checks_cost = self.checks_cost
        trainer.steps_per_call = self.steps_per_call
        trainer.sanity_steps = self.sanity_steps
        trainer.resumed_states = self.config.callback_states


def plan_run(config: TrainConfig, model: ModelDesc, trainer: SingleCostTrainer, options: DebugOptions) -> RunPlan:
    """Work out the plan of a run, once, and note in the config what scripts and callbacks read there.

    The order matters, and is: the share of this worker in the data, the length of an epoch, the position of the chief's
    training, the position in the data, the debug options.

    Args:
        config: the config; its numbers, data and callbacks become those of the plan.
        model: its model.
        trainer: the trainer; it knows the devices and the other workers.
        options: the debug options.

    Raises:
        ConfigError: The data cannot be shared evenly, or the inputs of the model are malformed.
        InputError: The dataflow is not that of the run that is resumed.
    """
    signature = model.get_input_signature()
    devices = trainer.devices if isinstance(trainer, BuilderTrainer) else ("",)
    share_data(config, trainer.peers)
    config.fit_to_towers(len(devices))
    trainer.follow_chief(config)
    resume_data(config, trainer.peers)
    options.apply(config, len(devices))
    return RunPlan(
        config,
        model,
        signature,
        data=_staged(config.data, devices),
        checks_cost=trainer.checks_cost and config.check_cost,
        steps_per_call=max(trainer.steps_per_call, config.steps_per_call),
        sanity_steps=0 if options.fast_dev_run else config.sanity_steps,
        description=_describe_run(config, trainer, len(devices)),
        facts=None if options.fast_dev_run else _facts_of_run(config, trainer, devices),
    )


def _describe_run(config: TrainConfig, trainer: SingleCostTrainer, num_towers: int) -> str:
    """Return the line of the log on the data of a step and an epoch, the precision, the reduction and the source."""
    parts = [describe_epoch(config.data, num_towers, config.steps_per_epoch), trainer.precision.compute_dtype]
    if num_towers > 1 and isinstance(trainer, BuilderTrainer) and trainer.reduction:
        parts.append(f"gradients reduced by {trainer.reduction}")
    where = f"In each of {config.num_workers} workers: " if config.num_workers > 1 else ""
    return where + "; ".join([*parts, f"data from {config.describe_data()}"]) + "."


def _facts_of_run(config: TrainConfig, trainer: SingleCostTrainer, devices: Sequence[str]) -> dict[str, Any]:
    """Return the setup of a run by name, for ``run.json``, without what is not known."""
    batch, num_points = config.data.samples()
    facts = {
        "model": type(config.model).__name__,
        "towers": len(devices),
        "workers": config.num_workers,
        "devices": [device for device in devices if device],
        "tower_batch": batch,
        "global_batch": batch and batch * len(devices) * config.num_workers,
        "points": num_points,
        "data": config.describe_data(),
        "steps_per_epoch": config.steps_per_epoch,
        "max_epoch": config.max_epoch,
        "starting_epoch": config.starting_epoch,
        "precision": trainer.precision.compute_dtype,
        "reduction": trainer.reduction if isinstance(trainer, BuilderTrainer) and len(devices) > 1 else None,
        "steps_per_call": max(trainer.steps_per_call, config.steps_per_call),
        "seed": config.seed,
    }
    return {name: value for name, value in facts.items() if value not in (None, "", [])}


def describe_epoch(source: InputSource, num_towers: int, steps_per_epoch: int) -> str:
    """Return the amount of data of a step and of an epoch, as far as it is known.

    Args:
        source: the input source; each tower takes data of its own.
        num_towers: K.
        steps_per_epoch: the steps of an epoch.
    """
    batch, num_samples = source.samples()
    towers = f"{num_towers} tower{'s' if num_towers > 1 else ''}"
    step = f"{towers} x {batch} = {num_towers * batch} samples a step" if batch else f"{towers}, each with its own data"
    line = f"{step}, {steps_per_epoch} steps an epoch"
    if not batch or not num_samples:
        return line
    passes = steps_per_epoch * num_towers * batch / num_samples
    return f"{line} = {f'{passes:.1f}' if passes >= 0.95 else f'{passes:.2g}'} passes over {num_samples} points"


def _staged(source: InputSource, devices: Sequence[str]) -> InputSource:
    """Stage batches on several GPUs, where the source allows it and does not do so itself."""
    # Between CPU devices a batch is passed without a copy, so staging would only cost.
    if sum("GPU" in device for device in devices) < 2 or not isinstance(source, FeedfreeInput):
        return source
    stages_itself = (_staging.StagingInput, _tensors.DummyConstantInput, _repeated.RepeatedBatches)
    staged: InputSource = source if isinstance(source, stages_itself) else _staging.StagingInput(source)
    return staged
