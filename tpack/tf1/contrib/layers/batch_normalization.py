"""``tf.contrib.layers.batch_norm``.

Two things follow 1.15 for the sake of checkpoints and results: ``gamma`` comes before ``beta`` where ``tf.layers`` did
the work, that is unless an option exceeds it; and the moving variance counts n / (n - 1) by the fused operation only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.batch_norm import updates_statistics
from tpack.models.channels import wide_dtype
from tpack.tf1.contrib.framework.scoping import add_arg_scope
from tpack.tf1.contrib.framework.tensors import smart_cond, smart_constant_value
from tpack.tf1.contrib.framework.variables import add_model_variable
from tpack.tf1.contrib.layers.convolutions import check_format, in_format
from tpack.tf1.contrib.layers.layer_weights import Weights, activate
from tpack.tf1.contrib.layers.utils import channel_dimension, get_variable_collections
from tpack.tf1.layers.normalization import BatchNormalization
from tpack.tower.context import get_current_tower_context, is_in_control_flow
from tpack.tower.getters import full_precision

_UPDATE_OPS = tf.GraphKeys.UPDATE_OPS


@add_arg_scope
def batch_norm(
    inputs: Any,
    decay: Any = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Any = None,
    param_initializers: Any = None,
    param_regularizers: Any = None,
    updates_collections: Any = _UPDATE_OPS,
    is_training: Any = True,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    batch_weights: Any = None,
    fused: bool | None = None,
    data_format: str = "NHWC",
    zero_debias_moving_mean: bool = False,
    scope: Any = None,
    renorm: bool = False,
    renorm_clipping: Any = None,
    renorm_decay: Any = 0.99,
    adjustment: Any = None,
) -> tf.Tensor:
    """Normalise each channel by the mean and variance of the batch, or by their moving averages.

    Args:
        inputs: of at least two dimensions, the number of channels known.
        decay: the share of the old average in the new one.
        center: add ``beta``.
        scale: multiply by ``gamma``.
        epsilon: added to the variance.
        activation_fn: the last function; None for none.
        param_initializers: of variables by their names.
        param_regularizers: of ``beta`` and ``gamma``.
        updates_collections: those of the averages' updates, to be run with each step; None to update with the output.
        is_training: normalise by the batch, else by the averages; may be a tensor. A prediction tower updates nothing.
        reuse: of the variable scope.
        variables_collections: those of the variables: a list, or a dict of lists by name.
        outputs_collections: those of the output.
        trainable: whether optimizers change ``beta`` and ``gamma``.
        batch_weights: of each input in the statistics.
        fused: use the fused operation where there is one; None for yes.
        data_format: ``"NHWC"``, or ``"NCHW"`` for channels first, in any number of dimensions.
        zero_debias_moving_mean: correct the moving mean for its start at zero.
        scope: the variable scope, ``BatchNorm`` by default.
        renorm: correct the result towards that of the averages.
        renorm_clipping: the limits ``rmin``, ``rmax`` and ``dmax`` of this correction.
        renorm_decay: of the averages of this correction.
        adjustment: a function of the shape that returns a factor and a shift of the normalised input, in training.

    Shapes:
        As the input.

    Creates:
        ``beta``, ``gamma``, ``moving_mean`` and ``moving_variance`` [C], and the updates.

    Raises:
        ConfigError: The input has an unknown number of channels, or options do not work together.
    """
    check_format(data_format)
    _check_options(batch_weights, zero_debias_moving_mean, updates_collections, renorm=renorm, adjustment=adjustment)
    inputs = tf.convert_to_tensor(inputs)
    options = _Options(data_format, epsilon, decay, is_training, batch_weights, zero_debias_moving_mean)
    with tf.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as sc:
        if renorm or adjustment is not None:
            corrected = {"renorm": renorm, "renorm_clipping": renorm_clipping, "renorm_momentum": renorm_decay}
            keywords = {**corrected, "adjustment": adjustment, "center": center, "scale": scale, "trainable": trainable}
            for kind, of_parameters in (("initializer", param_initializers), ("regularizer", param_regularizers)):
                keywords.update({f"{name}_{kind}": value for name, value in (of_parameters or {}).items()})
            outputs = _by_layer(inputs, options, keywords, variables_collections)
            return activate(outputs, activation_fn, outputs_collections, sc)
        channels = channel_dimension(inputs.shape, data_format, min_rank=2)
        is_fused = fused is not False and inputs.shape.rank in (2, 4) and batch_weights is None
        is_plain = batch_weights is None and not zero_debias_moving_mean and updates_collections == _UPDATE_OPS
        was_of_layers = is_plain and not (is_fused and inputs.shape.rank == 2)
        affine = {"beta": center, "gamma": scale}
        names = [name for name in ("gamma", "beta") if affine[name]]
        variables = _Variables.make(
            Weights(variables_collections, trainable, wide_dtype(inputs)),
            channels,
            names if was_of_layers else names[::-1],
            param_initializers or {},
            param_regularizers or {},
        )
        layer = _Layer(inputs, variables, options)
        outputs, mean, variance = layer.normalize(is_fused=is_fused)
        # The layers of 1.15 did not update what is not trained.
        if layer.training is not False and updates_statistics() and (trainable or not was_of_layers):
            outputs = _collect(layer.updates(mean, variance), outputs, updates_collections)
        outputs.set_shape(inputs.shape)
        return activate(outputs, activation_fn, outputs_collections, sc)


@dataclass(frozen=True)
class _Options:
    data_format: str
    epsilon: float
    decay: Any
    is_training: Any
    batch_weights: Any
    zero_debias: bool


class _Variables(NamedTuple):
    gamma: tf.Variable | None
    beta: tf.Variable | None
    mean: tf.Variable
    variance: tf.Variable

    @classmethod
    def make(
        cls,
        weights: Weights,
        channels: int,
        names: Sequence[str],
        initializers: Mapping[str, Any],
        regularizers: Mapping[str, Any],
    ) -> "_Variables":
        """Make those of ``gamma`` and ``beta`` that are named, in this order, and the averages."""
        zeros, ones = tf.zeros_initializer(), tf.ones_initializer()
        defaults = {"gamma": ones, "beta": zeros, "moving_mean": zeros, "moving_variance": ones}
        initial = {name: initializers.get(name, default) for name, default in defaults.items()}
        made = {name: weights.make(name, [channels], initial[name], regularizers.get(name)) for name in names}
        averages = [
            weights.make_average(name, [channels], initial[name]) for name in ("moving_mean", "moving_variance")
        ]
        return cls(made.get("gamma"), made.get("beta"), *averages)


class _Layer:
    """The computation; ``training`` is None where it is only known when the graph runs."""

    def __init__(self, inputs: tf.Tensor, variables: _Variables, options: _Options) -> None:
        self._inputs = inputs
        self._variables = variables
        self._options = options
        self.training = smart_constant_value(options.is_training)

    def normalize(self, *, is_fused: bool) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the output, and the mean and variance for the averages."""
        normalize = self._fused if is_fused else self._unfused
        return smart_cond(self._options.is_training, lambda: normalize(True), lambda: normalize(False))

    def updates(self, mean: tf.Tensor, variance: tf.Tensor) -> list[tf.Operation]:
        """Return the operations that move the averages towards a training batch."""
        moving = self._variables
        move_mean = self._move_debiased if self._options.zero_debias else self._move
        return [move_mean(moving.mean, mean), self._move(moving.variance, variance)]

    def _fused(self, by_batch: bool) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        moving = self._variables
        channels = moving.mean.shape.as_list()
        gamma = tf.ones(channels, moving.mean.dtype) if moving.gamma is None else moving.gamma
        beta = tf.zeros(channels, moving.mean.dtype) if moving.beta is None else moving.beta
        averages = (None, None) if by_batch else (tf.identity(moving.mean), tf.identity(moving.variance))
        statistics: list[tf.Tensor] = []

        def operation(x: tf.Tensor, short: str) -> tf.Tensor:
            outputs, *found = tf.nn.fused_batch_norm(
                x, gamma, beta, *averages, self._options.epsilon, data_format=short, is_training=by_batch
            )
            statistics.extend(found)
            return outputs

        if self._inputs.shape.rank == 4:
            outputs = in_format(operation, self._inputs, self._options.data_format)
        else:
            outputs = operation(tf.reshape(self._inputs, [-1, 1, 1, *channels]), "NHWC")
            outputs = tf.reshape(outputs, tf.shape(self._inputs))
        mean, variance = statistics if by_batch else averages
        return outputs, mean, variance

    def _unfused(self, by_batch: bool) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        moving = self._variables
        wide = tf.cast(self._inputs, moving.mean.dtype)
        rank = wide.shape.rank
        channel_axis = 1 if self._options.data_format == "NCHW" else rank - 1
        if by_batch:
            mean, variance = self._moments(wide, [axis for axis in range(rank) if axis != channel_axis])
        else:
            mean, variance = tf.identity(moving.mean), tf.identity(moving.variance)

        def spread(vector: tf.Tensor | None) -> tf.Tensor | None:
            if vector is None or channel_axis == rank - 1:
                return vector
            return tf.reshape(vector, [-1 if axis == channel_axis else 1 for axis in range(rank)])

        values = map(spread, (mean, variance, moving.beta, moving.gamma))
        outputs = tf.nn.batch_normalization(wide, *values, variance_epsilon=self._options.epsilon)
        return tf.cast(outputs, self._inputs.dtype), mean, variance

    def _moments(self, wide: tf.Tensor, axes: list[int]) -> tuple[tf.Tensor, tf.Tensor]:
        if self._options.batch_weights is None:
            return tf.nn.moments(wide, axes)
        weights = tf.cast(tf.convert_to_tensor(self._options.batch_weights), wide.dtype)
        return tf.nn.weighted_moments(wide, axes, tf.reshape(weights, [-1] + [1] * (wide.shape.rank - 1)))

    def _rate(self, dtype: tf.DType) -> tf.Tensor:
        """Return the share of the new value, 0 outside of training."""
        rate = tf.cast(1.0 - self._options.decay, dtype)
        return rate if self.training else tf.where(self._options.is_training, rate, tf.zeros_like(rate))

    def _move(self, average: tf.Variable, value: tf.Tensor) -> tf.Operation:
        change = (average - value) * self._rate(average.dtype.base_dtype)
        return average.assign_sub(change, name="AssignMovingAvg", read_value=False)

    def _move_debiased(self, average: tf.Variable, value: tf.Tensor) -> tf.Operation:
        """Move an average that begins at 0, and divide by the weight that it has so far."""
        dtype = average.dtype.base_dtype
        with tf.variable_scope(_name_in_tower(average), values=[average, value]), full_precision():
            zeros = tf.zeros_initializer()
            options = {"trainable": False, "use_resource": True}
            biased = tf.get_variable("biased", average.shape, dtype, zeros, **options)
            num_steps = tf.get_variable("local_step", [], dtype, zeros, **options)
        is_training = tf.constant(True) if self.training else tf.cast(self._options.is_training, tf.bool)
        counted = num_steps + tf.cast(is_training, dtype)
        moved = biased - (biased - value) * self._rate(dtype)
        weight = 1 - tf.pow(tf.cast(self._options.decay, dtype), tf.maximum(counted, 1))
        changed = tf.where(is_training, moved / weight, tf.identity(average))
        with tf.control_dependencies([changed, moved, counted]):
            return tf.group(average.assign(changed), biased.assign(moved), num_steps.assign(counted))


def _collect(updates: Sequence[tf.Operation], outputs: tf.Tensor, collections: Any) -> tf.Tensor:
    """Collect updates, or run them with the output; return the output."""
    if collections is None:
        with tf.control_dependencies(updates):
            return tf.identity(outputs)
    if is_in_control_flow():
        raise ConfigError(
            f"batch_norm in {tf.get_variable_scope().name} is in a loop or condition of TensorFlow, where updates "
            "cannot be collected: expected updates_collections=None"
        )
    for key in get_variable_collections(collections, "updates") or ():
        for update in updates:
            tf.add_to_collection(key, update)
    return outputs


def _name_in_tower(variable: tf.Variable) -> str:
    """Return the name of a variable without the scope of a tower that has its own variables."""
    tower = get_current_tower_context()
    prefix = f"{tower.vs_name}/" if tower is not None and tower.vs_name else ""
    return variable.op.name.removeprefix(prefix)


def _by_layer(
    inputs: tf.Tensor, options: _Options, keywords: Mapping[str, Any], variables_collections: Any
) -> tf.Tensor:
    """Normalise by the layer of ``tf.layers``, which has corrections, in the current variable scope."""
    scope = tf.get_variable_scope()
    layer = BatchNormalization(
        axis=1 if options.data_format == "NCHW" else -1,
        momentum=options.decay,
        epsilon=options.epsilon,
        _scope=scope,
        _reuse=scope.reuse,
        **keywords,
    )
    outputs = layer.apply(inputs, training=options.is_training)
    for variable in layer.variables:
        add_model_variable(variable)
        name = variable.op.name.rpartition("/")[2]
        for key in get_variable_collections(variables_collections, name) or ():
            if not any(known is variable for known in tf.get_collection_ref(key)):
                tf.add_to_collection(key, variable)
    return outputs


def _check_options(
    batch_weights: Any, zero_debias: bool, updates_collections: Any, *, renorm: bool, adjustment: Any
) -> None:
    for name, is_asked in (("renorm=True", renorm), ("adjustment", adjustment is not None)):
        if is_asked and (batch_weights is not None or zero_debias or updates_collections != _UPDATE_OPS):
            raise ConfigError(
                f"batch_norm got {name} with batch_weights, zero_debias_moving_mean or other updates_collections: "
                "expected none of them"
            )
