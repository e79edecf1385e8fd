"""Batch normalisation, with TensorFlow's fused operation where it can be.

Training normalises by the mean and variance of the batch, and moves averages of them; these moves are in UPDATE_OPS,
and nothing else runs them. Otherwise the averages are what normalises. With ``renorm``, training corrects its result
towards what averages give, within limits.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.channels import wide_dtype
from tpack.models.data_format import sizes_of
from tpack.tf1.layers.arguments import ONES, ZEROS, Constraint, Initializer, InputSpec, Regularizer, parts_of, set_parts
from tpack.tf1.layers.base import Layer
from tpack.tf1.layers.core import is_never, where_training
from tpack.tf1.signatures import like, parameter
from tpack.tower.getters import full_precision
from tpack.utils.validation import check_count, check_function, shown

_CLIPPED = {"rmax", "rmin", "dmax"}


class _Affine(NamedTuple):
    """A factor and a shift in a shape that broadcasts with the input; None for none."""

    scale: Any
    offset: Any

    def after(self, scale: Any, offset: Any) -> "_Affine":
        """Return what does the same after another factor and shift have been applied."""
        if self.scale is not None:
            scale, offset = scale * self.scale, offset * self.scale
        return _Affine(scale, offset if self.offset is None else offset + self.offset)


class BatchNormalization(Layer):
    """Normalise along one axis, or several, by statistics over the others.

    Args:
        axis: the axis to keep, that of the channels; or a list of axes.
        momentum: the share of the old average in the new one.
        center: whether there is ``beta``, which is added.
        scale: whether there is ``gamma``, which is multiplied with.
        beta_initializer: of ``beta``.
        gamma_initializer: of ``gamma``.
        moving_mean_initializer: of the average of means.
        moving_variance_initializer: of the average of variances.
        beta_regularizer: a function of ``beta`` that returns a loss for REGULARIZATION_LOSSES.
        gamma_regularizer: the same for ``gamma``.
        beta_constraint: what optimizers do to ``beta`` after each update.
        gamma_constraint: the same for ``gamma``.
        renorm: whether to correct the result towards averages.
        renorm_clipping: limits of the correction, ``rmax``, ``rmin`` and ``dmax``: numbers or scalar tensors; a
            missing one does not limit.
        renorm_momentum: the share of the old in the averages that correct.
        fused: None or True for the fused operation where it can be, which is for feature maps of four dimensions
            without ``renorm``, ``virtual_batch_size`` and ``adjustment``; False for never. The fused one moves the
            average variance to that of n / (n - 1) times the batch's.
        trainable: whether ``gamma`` and ``beta`` are trained; if not, there are no updates either.
        virtual_batch_size: normalise groups of so many inputs, each by its own statistics. It divides the batch, and a
            group is every n-th input where there are n groups.
        adjustment: a function of the shape of the input that returns a factor and a shift for what is normalised, when
            training.

    Creates:
        ``gamma``, ``beta``, ``moving_mean``, ``moving_variance``, and with ``renorm`` ``moving_stddev``,
        ``renorm_mean`` and ``renorm_stddev``: [C] for one axis, in float32 for inputs of 16 bits.

    Source:
        Ioffe and Szegedy, "Batch Normalization", https://arxiv.org/abs/1502.03167; Ioffe, "Batch Renormalization",
        https://arxiv.org/abs/1702.03275
    """

    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        momentum: Any = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Initializer = ZEROS,
        gamma_initializer: Initializer = ONES,
        moving_mean_initializer: Initializer = ZEROS,
        moving_variance_initializer: Initializer = ONES,
        beta_regularizer: Regularizer = None,
        gamma_regularizer: Regularizer = None,
        beta_constraint: Constraint = None,
        gamma_constraint: Constraint = None,
        renorm: bool = False,
        renorm_clipping: Mapping[str, Any] | None = None,
        renorm_momentum: Any = 0.99,
        fused: bool | None = None,
        trainable: bool = True,
        virtual_batch_size: int | None = None,
        adjustment: Callable[[tf.Tensor], tuple[Any, Any]] | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        given = locals()
        super().__init__(trainable=trainable, name=name, **kwargs)
        self.axis = [axis] if isinstance(axis, int) else list(axis)
        self.momentum = momentum
        self.epsilon = epsilon
        self.center = center
        self.scale = scale
        set_parts(self, given)
        self.renorm = renorm
        self.renorm_clipping = self._check_clipping(renorm_clipping)
        self.renorm_momentum = renorm_momentum
        self.fused = fused
        self.virtual_batch_size = (
            None if virtual_batch_size is None else check_count(self, "virtual_batch_size", virtual_batch_size)
        )
        self.adjustment = None if adjustment is None else check_function(self, "adjustment", adjustment)
        self.gamma: Any = None
        self.beta: Any = None
        self.moving_mean: Any = None
        self.moving_variance: Any = None
        self.moving_stddev: Any = None
        self.renorm_mean: Any = None
        self.renorm_stddev: Any = None

    def build(self, input_shape: Any) -> None:
        """Make the variables, and see whether the operation can be fused."""
        sizes = tf.TensorShape(input_shape).as_list()
        self.axis = self._check_axes(sizes)
        self.input_spec = InputSpec(ndim=len(sizes), axes={axis: sizes[axis] for axis in self.axis})
        self.fused = self.fused is not False and self._can_be_fused(len(sizes))
        # The variables stay wide, also in a model that is computed in 16 bits.
        with full_precision():
            self._make_variables(self._parameter_shape(sizes))
        self.built = True

    def call(self, inputs: tf.Tensor, training: Any = False) -> tf.Tensor:
        """Normalise by the batch, and update the averages, if ``training``; else normalise by the averages."""
        if self.fused:
            return self._normalize_fused(inputs, training)
        if self.virtual_batch_size is None:
            return self._normalize(inputs, training)
        shape = tf.shape(inputs)
        grouped = tf.reshape(inputs, [self.virtual_batch_size, -1, *sizes_of(inputs)[1:]])
        outputs = tf.reshape(self._normalize(grouped, training), shape)
        outputs.set_shape(inputs.shape)
        return outputs

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        """Return the shape of the input."""
        return tf.TensorShape(input_shape)

    def _check_clipping(self, clipping: Mapping[str, Any] | None) -> dict[str, Any]:
        clipping = dict(clipping or {})
        if not clipping.keys() <= _CLIPPED:
            raise ConfigError(
                f"{self.name} got renorm_clipping={shown(list(clipping))}: expected some of "
                f"{', '.join(sorted(_CLIPPED))}"
            )
        return clipping

    def _check_axes(self, sizes: Sequence[int | None]) -> list[int]:
        """Return the axes counted from the front."""
        axes = [axis + len(sizes) if axis < 0 else axis for axis in self.axis]
        if len(set(axes)) < len(axes) or not all(0 <= axis < len(sizes) for axis in axes):
            raise ConfigError(f"{self.name} got axis={self.axis} for inputs of {len(sizes)} dimensions")
        if any(sizes[axis] is None for axis in axes):
            raise ConfigError(f"{self.name} got inputs of shape {sizes}: expected known sizes of the axes {axes}")
        if self.virtual_batch_size is not None and 0 in axes:
            raise ConfigError(f"{self.name} cannot keep axis 0, the batch, which virtual_batch_size divides")
        return axes

    def _can_be_fused(self, rank: int) -> bool:
        is_plain = not self.renorm and self.virtual_batch_size is None and self.adjustment is None
        return is_plain and rank == 4 and self.axis in ([1], [3]) and tf.as_dtype(self.dtype) != tf.float64

    def _parameter_shape(self, sizes: Sequence[int | None]) -> list[int | None]:
        if len(self.axis) == 1 and self.virtual_batch_size is None:
            return [sizes[self.axis[0]]]
        shape = [size if axis in self.axis else 1 for axis, size in enumerate(sizes)]
        return shape if self.virtual_batch_size is None else [1, *shape]

    def _make_variables(self, shape: list[int | None]) -> None:
        dtype = tf.as_dtype(self.dtype)
        dtype = tf.float32 if dtype.size < 4 else dtype
        for name, is_wanted in (("gamma", self.scale), ("beta", self.center)):
            if is_wanted:
                setattr(self, name, self.add_weight(name, shape, dtype, **parts_of(self, name)))
        averages = {"moving_mean": "mean", "moving_variance": "variance"}
        if self.renorm:
            averages.update(moving_stddev="variance", renorm_mean="mean", renorm_stddev="variance")
        for name, statistic in averages.items():
            initializer = getattr(self, f"moving_{statistic}_initializer")
            setattr(self, name, self._make_average(name, shape, dtype, initializer))

    def _make_average(self, name: str, shape: Any, dtype: tf.DType, initializer: Initializer) -> Any:
        """Make a variable that is not trained, and whole also where others are partitioned."""
        return self.add_weight(
            name,
            shape,
            dtype,
            initializer,
            trainable=False,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.MEAN,
            getter=_get_whole,
        )

    def _normalize_fused(self, inputs: tf.Tensor, training: Any) -> tf.Tensor:
        data_format = "NCHW" if self.axis == [1] else "NHWC"
        shape = self.moving_mean.shape
        gamma = tf.ones(shape) if self.gamma is None else self.gamma
        beta = tf.zeros(shape) if self.beta is None else self.beta

        def train() -> Any:
            return tf.nn.fused_batch_norm(inputs, gamma, beta, epsilon=self.epsilon, data_format=data_format)

        def infer() -> Any:
            return tf.nn.fused_batch_norm(
                inputs,
                gamma,
                beta,
                mean=self.moving_mean,
                variance=self.moving_variance,
                epsilon=self.epsilon,
                data_format=data_format,
                is_training=False,
            )

        outputs, mean, variance = where_training(training, train, infer)
        if not is_never(training):
            self._update(mean, variance, training)
        return outputs

    def _normalize(self, inputs: tf.Tensor, training: Any) -> tf.Tensor:
        wide = tf.cast(inputs, wide_dtype(inputs))
        mean, variance = where_training(
            training,
            lambda: self._moments(wide),
            lambda: (tf.identity(self.moving_mean), tf.identity(self.moving_variance)),
        )
        affine = _Affine(*(self._spread(value, wide) for value in (self.gamma, self.beta)))
        if not is_never(training):
            affine = self._adjusted(affine, wide, training)
            of_all = self._over_groups(mean), self._over_groups(variance)
            if self.renorm:
                affine = self._corrected(affine, *of_all, wide, training)
            else:
                self._update(*of_all, training)
        mean, variance = self._spread(mean, wide), self._spread(variance, wide)
        outputs = tf.nn.batch_normalization(wide, mean, variance, affine.offset, affine.scale, self.epsilon)
        return tf.cast(outputs, inputs.dtype)

    def _moments(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        if self.virtual_batch_size is None:
            axes = [axis for axis in range(inputs.shape.rank) if axis not in self.axis]
            return tf.nn.moments(inputs, axes, keep_dims=len(self.axis) > 1)
        kept = [1, *(axis + 1 for axis in self.axis)]
        return tf.nn.moments(inputs, [axis for axis in range(inputs.shape.rank) if axis not in kept], keep_dims=True)

    def _over_groups(self, value: tf.Tensor) -> tf.Tensor:
        """Return the mean of a statistic over the groups of a virtual batch size."""
        return value if self.virtual_batch_size is None else tf.reduce_mean(value, axis=1, keepdims=True)

    def _spread(self, value: Any, inputs: tf.Tensor) -> Any:
        rank = inputs.shape.rank
        if value is None or value.shape.rank == rank or self.axis == [rank - 1]:
            return value
        shape = [1] * rank
        shape[self.axis[0]] = -1
        return tf.reshape(value, shape)

    def _adjusted(self, affine: _Affine, inputs: tf.Tensor, training: Any) -> _Affine:
        if self.adjustment is None:
            return affine
        scale, offset = (tf.cast(value, inputs.dtype) for value in self.adjustment(tf.shape(inputs)))
        scale = where_training(training, lambda: scale, lambda: tf.ones_like(scale))
        offset = where_training(training, lambda: offset, lambda: tf.zeros_like(offset))
        return affine.after(scale, offset)

    def _update(self, mean: tf.Tensor, variance: tf.Tensor, training: Any) -> None:
        step = _step_of(training, self.momentum)
        self.add_update([_move(self.moving_mean, mean, step), _move(self.moving_variance, variance, step)])

    def _corrected(
        self, affine: _Affine, mean: tf.Tensor, variance: tf.Tensor, inputs: tf.Tensor, training: Any
    ) -> _Affine:
        """Return a factor and shift that correct towards the averages first, and move all averages."""
        stddev = tf.sqrt(variance + self.epsilon)
        # The averages begin anywhere, also at zero.
        divisor = tf.maximum(self.renorm_stddev, self.epsilon**0.5)
        limits = self.renorm_clipping
        bound = limits.get("dmax")
        ratio = _clipped(stddev / divisor, limits.get("rmin"), limits.get("rmax"))
        shift = _clipped((mean - self.renorm_mean) / divisor, None if bound is None else -bound, bound)
        ratio = where_training(training, lambda: ratio, lambda: tf.ones_like(ratio))
        shift = where_training(training, lambda: shift, lambda: tf.zeros_like(shift))
        with tf.control_dependencies([ratio, shift]):
            self._update_corrected(tf.identity(mean), tf.identity(stddev), training)
        return affine.after(*(self._spread(tf.stop_gradient(value), inputs) for value in (ratio, shift)))

    def _update_corrected(self, mean: tf.Tensor, stddev: tf.Tensor, training: Any) -> None:
        """Move the averages that correct, and those of inference; its variance follows from a deviation."""
        step = _step_of(training, self.renorm_momentum)
        corrections = [_move(self.renorm_mean, mean, step), _move(self.renorm_stddev, stddev, step)]
        step = _step_of(training, self.momentum)
        with tf.control_dependencies(corrections):
            self.add_update(_move(self.moving_mean, mean, step))
            moved = _move(self.moving_stddev, stddev, step)
        with tf.control_dependencies([moved]):
            variance = where_training(
                training,
                lambda: tf.nn.relu(tf.square(self.moving_stddev) - self.epsilon),
                lambda: tf.identity(self.moving_variance),
            )
        self.add_update(self.moving_variance.assign(variance, name="AssignNewValue", read_value=False))


def _step_of(training: Any, momentum: Any) -> Any:
    """Return which part of the way an average goes: none while ``training`` is false."""
    return where_training(training, lambda: tf.convert_to_tensor(1.0 - momentum), lambda: tf.constant(0.0))


def _get_whole(*args: Any, **kwargs: Any) -> Any:
    scope = tf.get_variable_scope()
    partitioner = scope.partitioner
    scope.set_partitioner(None)
    try:
        return tf.get_variable(*args, **kwargs)
    finally:
        scope.set_partitioner(partitioner)


def _move(average: Any, value: tf.Tensor, step: tf.Tensor) -> tf.Operation:
    with tf.name_scope("AssignMovingAvg") as scope:
        return average.assign_sub((average - value) * tf.cast(step, value.dtype), name=scope, read_value=False)


def _clipped(value: tf.Tensor, low: Any, high: Any) -> tf.Tensor:
    if low is not None:
        value = tf.maximum(value, tf.cast(low, value.dtype))
    return value if high is None else tf.minimum(value, tf.cast(high, value.dtype))


@like(
    BatchNormalization.__init__,
    without="self trainable name kwargs",
    after={
        "": {"inputs": parameter("inputs", Any)},
        "gamma_constraint": {
            "training": parameter("training", Any, False),
            "trainable": True,
            "name": parameter("name", str | None, None),
            "reuse": None,
        },
    },
)
def batch_normalization(inputs: Any, training: Any, name: str | None, reuse: Any, **given: Any) -> tf.Tensor:
    """Apply `BatchNormalization`, whose arguments these are, with ``training`` for its call and ``reuse``.

    Example:
        x = tf.layers.batch_normalization(x, training=is_training)
        ...
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            train_op = optimizer.minimize(cost)
    """
    return BatchNormalization(**given, name=name, _reuse=reuse, _scope=name)(inputs, training=training)
