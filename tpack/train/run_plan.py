"""The plan of one run: all that a config, a trainer and the debug options decide, worked out once before building."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.monitors.base import MonitorBase
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.base import FeedfreeInput, InputSource
from tpack.input_source.repeated import RepeatedBatches
from tpack.input_source.staging import StagingInput
from tpack.input_source.tensors import DummyConstantInput
from tpack.tfutils.sesscreate import SessionCreator
from tpack.tfutils.sessinit import SessionInit
from tpack.train.config import TrainConfig
from tpack.train.debug_options import DebugOptions
from tpack.train.resume import resume_data, share_data
from tpack.train.single_cost import BuilderTrainer, SingleCostTrainer


@dataclass(frozen=True)
class RunPlan:
    """Everything that `launch_train_with_config` hands to a trainer.

    Args:
        model: the model.
        signature: the inputs of the model.
        data: the input source, staged on the devices where that pays.
        callbacks: the user's callbacks.
        extra_callbacks: the default callbacks.
        monitors: the destinations of statistics.
        session_creator: creates the session.
        session_init: sets the first values of the variables.
        steps_per_epoch: the steps of an epoch.
        starting_epoch: the first epoch, counted from 1.
        starting_step: finished steps of the first epoch.
        max_epoch: the last epoch.
        callback_states: the states of callbacks in the checkpoint that is resumed.
        checks_cost: whether a cost or variable that is not finite ends training.
        steps_per_call: the most steps of one session run.
        seed: the seed of all random numbers, or None.
        description: the line for the log: data, precision, reduction and source.
        facts: the contents of ``run.json`` on the setup; None writes no such file.
    """

    model: ModelDesc
    signature: Sequence[tf.TensorSpec | tf.Tensor]
    data: InputSource
    callbacks: Sequence[Callback]
    extra_callbacks: Sequence[Callback]
    monitors: Sequence[MonitorBase]
    session_creator: SessionCreator
    session_init: SessionInit
    steps_per_epoch: int
    starting_epoch: int
    starting_step: int
    max_epoch: int
    callback_states: dict[str, Any]
    checks_cost: bool
    steps_per_call: int
    seed: int | None
    description: str
    facts: dict[str, Any] | None

    @property
    def first_global_step(self) -> int:
        """The steps of all epochs that are finished when training begins."""
        return (self.starting_epoch - 1) * self.steps_per_epoch + self.starting_step

    def set_options(self, trainer: SingleCostTrainer) -> None:
        """Set the trainer's attributes that the plan decides.

        Args:
            trainer: the trainer, before it builds.
        """
        trainer.model = self.model
        trainer.run_facts = self.facts
        trainer.checks_cost = self.checks_cost
        trainer.steps_per_call = self.steps_per_call
        trainer.resumed_states = self.callback_states


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
        model=model,
        signature=signature,
        data=_staged(config.data, devices),
        callbacks=config.callbacks,
        extra_callbacks=config.extra_callbacks,
        monitors=config.monitors,
        session_creator=config.session_creator,
        session_init=config.session_init,
        steps_per_epoch=config.steps_per_epoch,
        starting_epoch=config.starting_epoch,
        starting_step=config.starting_step,
        max_epoch=config.max_epoch,
        callback_states=config.callback_states,
        checks_cost=trainer.checks_cost and config.check_cost,
        steps_per_call=max(trainer.steps_per_call, config.steps_per_call),
        seed=config.seed,
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
    gpus = [device for device in devices if "GPU" in device]
    has_own_way = isinstance(source, (StagingInput, DummyConstantInput, RepeatedBatches))
    can_be_staged = isinstance(source, FeedfreeInput) and not has_own_way
    # Between CPU devices a batch is passed without a copy, so staging would only cost.
    return StagingInput(source) if len(gpus) > 1 and can_be_staged else source
