"""The one function that most scripts end with."""

import os
from collections.abc import Sequence
from typing import Any

from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.base import FeedfreeInput, InputSource
from tpack.input_source.repeated import RepeatedBatches
from tpack.input_source.staging import StagingInput
from tpack.input_source.tensors import DummyConstantInput
from tpack.multi_worker.ps_trainer import DistributedTrainer
from tpack.step.step_seeds import begin_at_step
from tpack.tfutils.model_utils import describe_trainable_vars
from tpack.tfutils.sessinit import JustCurrentSession
from tpack.train.config import TrainConfig, seed_everything
from tpack.train.debug_options import DebugOptions
from tpack.train.interruption import ended_by_signals
from tpack.train.resume import AutoResumeTrainConfig, resume_data, share_data
from tpack.train.single_cost import BuilderTrainer, SingleCostTrainer
from tpack.utils import logger
from tpack.utils.renames import with_cost_attribute
from tpack.utils.validation import check_arguments, check_instance


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

    A DataFlow is fed through a `QueueInput`; with several GPUs, the batches of every source that needs no feed are
    staged on the devices as well. Unless ``steps_per_epoch`` was given, an epoch is one pass of all towers over the
    data; the log says how many samples a step has and how many passes an epoch is.

    In a process that is a parameter server, nothing is trained: it serves until the workers have ended.

    Args:
        config: what is trained, and how.
        trainer: decides on which devices and how gradients are reduced.
        fast_dev_run: try everything once: one epoch of a single step, or of so many, then all that comes at its end,
            with as many batches in each evaluation. Nothing is saved: callbacks that save are left out, and all
            monitors but the one that prints.
        overfit_batches: all steps use the data of the first so many, over and over: a model that can learn brings the
            cost on them down to nothing. Without ``steps_per_epoch`` they are an epoch. Evaluations are as they were.
        limit_batches: an epoch has at most so many steps, and each evaluation at most so many batches; a fraction
            such as 0.1 is one of what there is.

    Raises:
        ConfigError: An argument is of the wrong type, the config has no `ModelDesc`, or a limit is too small or
            large, or ``fast_dev_run`` is given with another one.
        KeyboardInterrupt: Ctrl-C; what was trained is saved.
        SystemExit: SIGTERM; what was trained is saved, and the exit code is 143.

    Example:
        launch_train_with_config(config, SyncMultiGPUTrainerReplicated(8))
    """
    shorter = DebugOptions(fast_dev_run, overfit_batches, limit_batches)
    model = check_instance("launch_train_with_config", "config.model", config.model, ModelDesc)
    trainer.check_is_new()
    if isinstance(trainer, DistributedTrainer) and trainer.serves:
        trainer.join()
        return
    signature = model.get_input_signature()
    devices = trainer.devices if isinstance(trainer, BuilderTrainer) else ("",)
    share_data(config, trainer.peers)
    config.fit_to_towers(len(devices))
    trainer.follow_chief(config)
    resume_data(config, trainer.peers)
    shorter.apply(config, len(devices))
    if config.seed is not None:
        seed_everything(config.seed, trainer.graph, rank=0 if trainer.peers is None else trainer.peers.rank)
    _tell_of_restart(config)
    logger.info(describe_run(config, trainer, len(devices)))
    trainer.told = None if fast_dev_run else facts_of_run(config, trainer, devices)
    with trainer.graph.as_default():
        begin_at_step((config.starting_epoch - 1) * config.steps_per_epoch + config.starting_step)
    trainer.checks_cost = trainer.checks_cost and config.check_cost
    trainer.steps_per_call = max(trainer.steps_per_call, config.steps_per_call)
    with ended_by_signals():
        trainer.begin_to_build()
        trainer.setup_graph(signature, _staged(config.data, devices), with_cost_attribute(model), model.get_optimizer)
    trainer.model = model
    trainer.register_callback(model.callbacks_for_training())
    with trainer.graph.as_default():
        describe_trainable_vars()
    trainer.resumed_states = config.callback_states
    trainer.train_with_defaults(
        callbacks=config.callbacks,
        monitors=config.monitors,
        session_creator=config.session_creator,
        session_init=config.session_init,
        steps_per_epoch=config.steps_per_epoch,
        starting_epoch=config.starting_epoch,
        max_epoch=config.max_epoch,
        extra_callbacks=config.extra_callbacks,
        starting_step=config.starting_step,
    )


def _tell_of_restart(config: TrainConfig) -> None:
    """Warn where `tpack launch` has started the job again and it does not go on."""
    restart = int(os.environ.get("TPACK_RESTART_COUNT", "0"))
    if restart and not isinstance(config, AutoResumeTrainConfig) and type(config.session_init) is JustCurrentSession:
        logger.warning(
            f"This is restart {restart} of tpack launch, and training begins anew: AutoResumeTrainConfig, in the place "
            "of TrainConfig, goes on from the last checkpoint."
        )


def describe_run(config: TrainConfig, trainer: SingleCostTrainer, num_towers: int) -> str:
    """Return the line that says what is about to be done: how much data, in what precision, reduced how, from where.

    Args:
        config: what is trained.
        trainer: who trains it.
        num_towers: K.
    """
    parts = [describe_epoch(config.data, num_towers, config.steps_per_epoch), trainer.precision.compute_dtype]
    if num_towers > 1 and isinstance(trainer, BuilderTrainer) and trainer.reduction:
        parts.append(f"gradients reduced by {trainer.reduction}")
    where = f"In each of {config.num_workers} workers: " if config.num_workers > 1 else ""
    return where + "; ".join([*parts, f"data from {config.describe_data()}"]) + "."


def facts_of_run(config: TrainConfig, trainer: SingleCostTrainer, devices: Sequence[str]) -> dict[str, Any]:
    """Return what `describe_run` says and more, by name, for ``run.json``; what is not known is left out.

    Args:
        config: what is trained.
        trainer: who trains it.
        devices: those of the K towers.
    """
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
    """Return how much data a step and an epoch use, as far as that is known.

    Args:
        source: where the data come from; each tower takes data of its own.
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
    """Stage the batches on the devices if they are several GPUs, the source can be staged, and nobody did so yet."""
    gpus = [device for device in devices if "GPU" in device]
    has_own_way = isinstance(source, (StagingInput, DummyConstantInput, RepeatedBatches))
    can_be_staged = isinstance(source, FeedfreeInput) and not has_own_way
    # Between CPU devices a batch is handed over without a copy, so staging would only cost.
    return StagingInput(source) if len(gpus) > 1 and can_be_staged else source
