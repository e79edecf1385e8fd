"""The function that most scripts end with."""

import os

from tpack.graph_builder.model_desc import ModelDesc
from tpack.step.step_seeds import begin_at_step
from tpack.tfutils.model_utils import describe_trainable_vars
from tpack.tfutils.sessinit import JustCurrentSession
from tpack.train.config import TrainConfig, seed_everything
from tpack.train.debug_options import DebugOptions
from tpack.train.interruption import ended_by_signals
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.run_plan import plan_run
from tpack.train.single_cost import SingleCostTrainer
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

    A DataFlow is fed through a `QueueInput`; with several GPUs, batches of every source without feeds are staged on the
    devices. Unless ``steps_per_epoch`` was given, an epoch is one pass of all towers over the data; the log states the
    samples of a step and the passes of an epoch.

    A parameter server trains nothing: it serves until the workers have ended.

    Args:
        config: the run.
        trainer: decides the devices and the reduction of gradients.
        fast_dev_run: try everything once: one epoch of one step, or of the given number, then all that comes at its
            end, with as many batches in each evaluation. Nothing is saved: callbacks that save are left out, and all
            monitors but the printing ones.
        overfit_batches: all steps repeat the data of the first ``overfit_batches`` steps: a model that can learn
            reduces their cost to almost zero. Without ``steps_per_epoch`` they are an epoch. Evaluations stay whole.
        limit_batches: the most steps of an epoch, and the most batches of each evaluation; a fraction such as 0.1 is
            relative.

    Raises:
        ConfigError: An argument is of the wrong type, the config has no `ModelDesc`, or a limit is too small or large,
            or ``fast_dev_run`` is given with another one.
        KeyboardInterrupt: Ctrl-C; the trained variables are saved.
        SystemExit: SIGTERM; the trained variables are saved, and the exit code is 143.

    Example:
        launch_train_with_config(config, SyncMultiGPUTrainerReplicated(8))
    """
    options = DebugOptions(fast_dev_run, overfit_batches, limit_batches)
    model = check_instance("launch_train_with_config", "config.model", config.model, ModelDesc)
    trainer.check_is_new()
    if trainer.serves:
        trainer.join()
        return
    plan = plan_run(config, model, trainer, options)
    plan.set_options(trainer)
    if plan.seed is not None:
        seed_everything(plan.seed, trainer.graph, rank=0 if trainer.peers is None else trainer.peers.rank)
    _warn_of_restart(config)
    logger.info(plan.description)
    with trainer.graph.as_default():
        begin_at_step(plan.first_global_step)
    with ended_by_signals():
        trainer.begin_to_build()
        trainer.setup_graph(plan.signature, plan.data, with_cost_attribute(model), model.get_optimizer)
    trainer.register_callback(model.callbacks_for_training())
    with trainer.graph.as_default():
        describe_trainable_vars()
    trainer.train_with_defaults(
        callbacks=plan.callbacks,
        monitors=plan.monitors,
        session_creator=plan.session_creator,
        session_init=plan.session_init,
        steps_per_epoch=plan.steps_per_epoch,
        starting_epoch=plan.starting_epoch,
        max_epoch=plan.max_epoch,
        extra_callbacks=plan.extra_callbacks,
        starting_step=plan.starting_step,
    )


def _warn_of_restart(config: TrainConfig) -> None:
    """Warn where `tpack launch` has restarted the job and training does not resume."""
    restart = int(os.environ.get("TPACK_RESTART_COUNT", "0"))
    if restart and not isinstance(config, AutoResumeTrainConfig) and type(config.session_init) is JustCurrentSession:
        logger.warning(
            f"This is restart {restart} of tpack launch, and training starts from the beginning: use "
            "AutoResumeTrainConfig in place of TrainConfig to resume from the last checkpoint."
        )
