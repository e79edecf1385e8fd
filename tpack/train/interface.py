"""The one function that most scripts end with."""

from tpack.errors import ConfigError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.base import FeedfreeInput, InputSource
from tpack.input_source.staging import StagingInput
from tpack.input_source.tensors import DummyConstantInput
from tpack.tfutils.model_utils import describe_trainable_vars
from tpack.tfutils.step.step_seeds import begin_at_step
from tpack.train.config import TrainConfig
from tpack.train.single_cost import BuilderTrainer, SingleCostTrainer


def launch_train_with_config(config: TrainConfig, trainer: SingleCostTrainer) -> None:
    """Build the graph of ``config.model`` with ``trainer`` and train it.

    A DataFlow is fed through a `QueueInput`; with several GPUs, the batches of every source that needs no feed are
    staged on the devices as well.

    Args:
        config: what is trained, and how.
        trainer: decides on which devices and how gradients are reduced.

    Raises:
        ConfigError: An argument is of the wrong type, or the config has no `ModelDesc`.

    Example:
        launch_train_with_config(config, SyncMultiGPUTrainerReplicated(8))
    """
    if not isinstance(trainer, SingleCostTrainer):
        raise ConfigError(f"trainer must be a SingleCostTrainer, got {trainer!r}")
    if not isinstance(config, TrainConfig):
        raise ConfigError(f"config must be a TrainConfig, got {config!r}")
    model = config.model
    if not isinstance(model, ModelDesc):
        raise ConfigError(f"the config needs a ModelDesc as its model, got {model!r}")
    with trainer.graph.as_default():
        begin_at_step((config.starting_epoch - 1) * config.steps_per_epoch + config.starting_step)
    trainer.checks_cost = trainer.checks_cost and config.check_cost
    trainer.setup_graph(
        model.get_input_signature(), _staged(config.data, trainer), model.build_graph, model.get_optimizer
    )
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


def _staged(source: InputSource, trainer: SingleCostTrainer) -> InputSource:
    """Stage the batches on the devices if they are several GPUs, the source can be staged, and nobody did so yet."""
    gpus = [device for device in trainer.devices if "GPU" in device] if isinstance(trainer, BuilderTrainer) else []
    can_be_staged = isinstance(source, FeedfreeInput) and not isinstance(source, (StagingInput, DummyConstantInput))
    # Between CPU devices a batch is handed over without a copy, so staging would only cost.
    return StagingInput(source) if len(gpus) > 1 and can_be_staged else source
