"""Build the graph of one run of an Estimator under a distribution strategy.

Each tower takes batches of its own from the Dataset, so that a step sees K batches. Training is the
strategy's: its towers, variables and updates. Evaluation needs none of the latter: it builds towers that share plain
variables, on the devices of the strategy, and adds up their metrics. A checkpoint of one is one of the other, and of a
run without a strategy.
"""

import tensorflow.compat.v1 as tf

from tpack.distribute.strategy import DistributionStrategy, get_loss_reduction
from tpack.distribute.values import select_device
from tpack.estimator.building import BuiltModel, ModelParts
from tpack.estimator.data_adapter import GivenInput
from tpack.estimator.inputs import call_distributed_input_fn
from tpack.estimator.merge_specs import join_towers
from tpack.estimator.model_fn import call_model_fn
from tpack.estimator.replicated import build_towers, replication_over
from tpack.estimator.spec import EstimatorSpec, ModeKeys, operation_of
from tpack.reduction.sums import sum_tensors
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tower.context import current_tower_context

_RESULTS = "/device:CPU:0"


def build_distributed_training(parts: ModelParts, given: GivenInput, strategy: DistributionStrategy) -> BuiltModel:
    """Build input and model for training into the current graph, in the towers of a strategy.

    Args:
        parts: the model, with any ``tf.train.Optimizer``.
        given: an input_fn that returns a Dataset, or data.
        strategy: under which it trains.

    Returns:
        The model. Its loss is the mean over the towers, or the sum if losses are summed; its train op is those of all
        towers; all else in its spec is the first tower's.

    Shapes:
        Features and labels: [B, ...] for each tower.

    Raises:
        ConfigError: The input_fn or the model_fn is called wrongly or returns something else than it should.
        StrategyError: A tower changes by itself what is the same for all.
        TowerMismatchError: The towers differ in their variables or optimizers.

    Source:
        Training with ``train_distribute`` of TensorFlow 1's estimators.
    """
    specs: dict[int, EstimatorSpec] = {}

    def build_tower(features: object, labels: object) -> None:
        tower = current_tower_context()
        # What a model_fn returns is more than tensors, so that nobody knows what it would return in a copy.
        tower.note_asked("EstimatorSpec")
        specs[tower.index] = call_model_fn(
            parts.model_fn, features, labels, ModeKeys.TRAIN, params=parts.params, config=parts.config
        )

    strategy.configure(parts.config.session_config)
    with strategy.scope():
        tf.set_random_seed(parts.config.tf_random_seed)
        global_step = get_global_step_var()
        inputs = call_distributed_input_fn(given, ModeKeys.TRAIN, strategy, params=parts.params, config=parts.config)
        strategy.call_for_each_tower(build_tower, inputs.features, inputs.labels)
    towers = [specs[index] for index in sorted(specs)]
    train_op = tf.group(*dict.fromkeys(operation_of(spec.train_op) for spec in towers), name="train_op_of_all_towers")
    with tf.device(_RESULTS):
        own_loss = _whole_loss(sum_tensors([spec.loss for spec in towers]), len(towers))
        loss = tf.identity(strategy.reduce_over_workers(get_loss_reduction(), own_loss), name="loss")
    return BuiltModel(inputs, towers[0]._replace(loss=loss, train_op=train_op), global_step)


def build_distributed_evaluation(parts: ModelParts, given: GivenInput, strategy: DistributionStrategy) -> BuiltModel:
    """Build input and model for evaluation into the current graph, in a tower on each device of a strategy.

    Args:
        parts: the model.
        given: an input_fn that returns a Dataset, or data. Of the batches, those that are left at the end for fewer
            than K towers are dropped.
        strategy: on whose devices it is evaluated.

    Returns:
        The model. Its loss is the mean over the towers, or the sum if losses are summed; its metrics are those of all
        K batches.

    Shapes:
        Features and labels: [B, ...] for each tower.

    Raises:
        ConfigError: The input_fn or the model_fn is called wrongly or returns something else than it should, or the
            towers differ.

    Source:
        Evaluation with ``eval_distribute`` of TensorFlow 1's estimators, which mirrors the variables.
    """
    tf.set_random_seed(parts.config.tf_random_seed)
    global_step = get_global_step_var()
    inputs = call_distributed_input_fn(given, ModeKeys.EVAL, strategy, params=parts.params, config=parts.config)
    devices = strategy.worker_devices
    own = [select_device(device, (inputs.features, inputs.labels)) for device in devices]

    def call(index: int) -> EstimatorSpec:
        features, labels = own[index]
        return call_model_fn(parts.model_fn, features, labels, ModeKeys.EVAL, params=parts.params, config=parts.config)

    replication = replication_over(devices)
    towers = build_towers(call, replication, ModeKeys.EVAL, averages_losses=False)
    spec = join_towers(towers, ModeKeys.EVAL, replication.consolidation_device)
    return BuiltModel(inputs, spec._replace(loss=_whole_loss(spec.loss, len(towers))), global_step)


def _whole_loss(total: tf.Tensor, num_towers: int) -> tf.Tensor:
    """Return the loss of all towers, made of its sum."""
    return total if get_loss_reduction() == tf.VariableAggregation.SUM else total / num_towers
