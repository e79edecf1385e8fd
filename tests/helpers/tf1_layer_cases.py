"""Models made of `tf.layers`, which `tests.helpers.tf1_oracle` builds with tpack's and with TensorFlow's own.

A case has several layers where it can, since each case is two sessions.
"""

from __future__ import annotations

from typing import Any

from tests.helpers.tf1_oracle import Case, numbers


def square(tf: Any, factor: float = 0.3) -> Any:
    """Return a regularizer."""
    return lambda x: factor * tf.reduce_sum(tf.square(x))


def each(name: str, shape: Any, *arguments: dict[str, Any], static: Any = "known", dtype: str = "float32") -> Case:
    """Return a case that calls a function of `tf.layers` with one input and several arguments in turn."""

    def case(tf: Any) -> Any:
        x = numbers(tf, shape, static, dtype)
        return [getattr(tf.layers, name)(x, **kwargs) for kwargs in arguments]

    return case


def training_later(shape: Any, is_training: bool, **kwargs: Any) -> Case:
    """Return a case of batch normalisation whose ``training`` is a tensor."""

    def case(tf: Any) -> Any:
        training = tf.placeholder_with_default(is_training, [], name="training")
        return tf.layers.batch_normalization(numbers(tf, shape), training=training, **kwargs)

    return case


def with_all_losses(name: str, shape: Any, kinds: Any = ("kernel", "bias"), **kwargs: Any) -> Case:
    """Return a case of a layer that regularises everything and is not linear."""

    def case(tf: Any) -> Any:
        regularizers = {f"{kind}_regularizer": square(tf) for kind in (*kinds, "activity")}
        x = numbers(tf, shape)
        return getattr(tf.layers, name)(x, 4, activation=tf.nn.relu, **regularizers, **kwargs)

    return case


def _three_dropouts(tf: Any) -> Any:
    x, later = numbers(tf, [20, 30], [None, 30]), tf.placeholder_with_default(True, [])
    return [
        tf.layers.dropout(x, 0.3, training=True, seed=3),
        tf.layers.dropout(x, 0.3, training=later, seed=3),
        tf.layers.dropout(x, training=True, seed=4, noise_shape=[None, 1]),
        tf.layers.dropout(x, 0.3),
        tf.layers.Dropout(0.1).apply(x),
    ]


def _flattened(tf: Any) -> Any:
    shapes = [
        ([2, 3, 4], [None, 3, 4]),
        ([2, 3, 4], [2, None, 4]),
        ([2, 3, 4], [2, 3, 4]),
        ([2], [None]),
        ([2, 3], [None, None]),
        ([2, 3, 4], [None, None, None]),
        ([0, 3, 4], [0, 3, 4]),
    ]
    outputs = [tf.layers.flatten(numbers(tf, shape, static)) for shape, static in shapes]
    return [*outputs, tf.layers.flatten(numbers(tf, [2, 3, 4]), data_format="channels_first")]


def _objects(tf: Any) -> Any:
    """Layers that are called twice, in other scopes, under given names."""
    x, y = numbers(tf, [2, 3], name="x"), numbers(tf, [2, 3], name="y")
    first = tf.layers.Dense(3, kernel_regularizer=square(tf), activity_regularizer=square(tf))
    named = tf.layers.Dense(3, name="named")
    outputs = [first(x), first.apply(y)]
    for scope in ("one", "two"):
        with tf.variable_scope(scope):
            outputs += [first(x), named(x), tf.layers.Dense(3, name="named")(x)]
    with tf.variable_scope("three") as scope:
        outputs.append(tf.layers.dense(x, 3))
    scoped = tf.layers.Dense(2)
    outputs += [scoped(x, scope=scope), tf.layers.Dense(2, _scope="four")(x), tf.layers.Dense(2, name="five")(x)]
    normalized = tf.layers.BatchNormalization()
    return [*outputs, normalized(x, training=True), normalized(y)]


def _reused(tf: Any) -> Any:
    """Functions whose variables are shared by scopes and by name."""
    x, outputs = numbers(tf, [2, 3]), []

    def model(*, is_training: bool) -> None:
        for name in ("a", None):
            y = tf.layers.dense(x, 3, name=name, kernel_regularizer=square(tf))
            outputs.append(tf.layers.batch_normalization(y, training=is_training, gamma_regularizer=square(tf)))

    # Two updates of one average would run in any order.
    for reuse in (None, True, tf.AUTO_REUSE):
        with tf.variable_scope("shared", reuse=reuse):
            model(is_training=reuse is None)
    outputs += [tf.layers.dense(x, 2, name="b", kernel_regularizer=square(tf), reuse=reuse) for reuse in (None, True)]
    outputs += [tf.layers.dense(x, 2, name="c", bias_regularizer=square(tf), reuse=tf.AUTO_REUSE) for _ in range(2)]
    with tf.name_scope("names"):
        outputs.append(tf.layers.dense(x, 2))
    outputs.append(tf.layers.dense(x, 2))
    return outputs


def _scoped(tf: Any) -> Any:
    """What a variable scope says of the variables in it."""

    def renaming(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return getter(name.replace("kernel", "weights"), *args, **kwargs)

    def freezing(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return getter(name, *args, **{**kwargs, "trainable": False})

    x, outputs = numbers(tf, [2, 4]), []
    with tf.variable_scope("parts", partitioner=tf.fixed_size_partitioner(2)):
        outputs.append(tf.layers.dense(x, 4, kernel_regularizer=square(tf)))
        outputs.append(tf.layers.batch_normalization(x, training=True))
    with tf.variable_scope("losses", regularizer=square(tf, 2.0), initializer=tf.ones_initializer()):
        outputs.append(tf.layers.dense(x, 4, kernel_regularizer=square(tf)))
    with tf.variable_scope("renamed", custom_getter=renaming):
        outputs.append(tf.layers.dense(x, 4))
    with tf.variable_scope("frozen", custom_getter=freezing):
        outputs.append(tf.layers.dense(x, 4))
    outputs.append(tf.layers.dense(x, 4, trainable=False))
    return outputs


def _derived(tf: Any) -> Any:
    """A user's own layers."""

    class Twice(tf.layers.Layer):
        def build(self, input_shape: Any) -> None:
            shape = [int(input_shape[-1]), 2]
            self.factor = self.add_weight("factor", shape, regularizer=square(tf))
            self.count = self.add_variable("count", [], initializer=tf.zeros_initializer(), trainable=False)
            super().build(input_shape)

        def call(self, inputs: Any, power: int = 1) -> Any:
            self.add_loss(tf.reduce_mean(inputs), inputs=inputs)
            self.add_loss(lambda: tf.reduce_sum(self.factor))
            self.add_update(tf.assign_add(self.count, tf.reduce_sum(inputs)))
            return tf.matmul(inputs, self.factor) ** power

    class MyHTTPLayer2D(tf.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner = tf.layers.Dense(2, name="inner", kernel_regularizer=square(tf))

        def call(self, inputs: Any) -> Any:
            first, second = inputs
            return {"sum": self.inner(first + second), "made": tf.get_variable("made", [2]) * 2.0}

    x, y = numbers(tf, [2, 3], name="x"), numbers(tf, [2, 3], name="y")
    twice = Twice()
    return [twice(x), twice.apply(y, power=2), Twice(name="other")(y), MyHTTPLayer2D()((x, y))]


def _by_name(tf: Any) -> Any:
    """What Keras has names for, and classes in place of objects."""
    x = numbers(tf, [2, 4])
    return [
        tf.layers.dense(x, 3, "relu", kernel_initializer="he_normal", bias_initializer="ones"),
        tf.layers.dense(x, 3, "tanh", kernel_regularizer="l2", bias_initializer=tf.ones_initializer),
        tf.layers.dense(x, 3, "linear", bias_regularizer="l1"),
    ]


_SEQUENCE, _MAP, _VOLUME = [2, 7, 4], [2, 7, 6, 4], [2, 4, 5, 4, 3]
_FIRST = {"data_format": "channels_first"}

CASES: dict[str, Case] = {
    "dense": with_all_losses("dense", [3, 5]),
    "dense of unknown sizes": each(
        "dense", [2, 3, 4], {"units": 5}, {"units": 2, "use_bias": False, "activation": None}, static=[None, None, 4]
    ),
    "dense in 64 bits": each("dense", [2, 4], {"units": 5}, dtype="float64"),
    "dense in 16 bits": each("dense", [2, 4], {"units": 5}, dtype="float16"),
    "dense in brain floats": each("dense", [2, 4], {"units": 5}, dtype="bfloat16"),
    "dropout": _three_dropouts,
    "flatten": _flattened,
    "objects": _objects,
    "reused": _reused,
    "scoped": _scoped,
    "derived": _derived,
    "by name": _by_name,
    "conv1d": each(
        "conv1d",
        _SEQUENCE,
        {"filters": 3, "kernel_size": 3},
        {"filters": 3, "kernel_size": 2, "strides": 2, "padding": "SAME"},
        {"filters": 3, "kernel_size": 3, "dilation_rate": 2, "padding": "causal"},
        static=[None, None, 4],
    ),
    "conv2d": with_all_losses("conv2d", _MAP, kernel_size=3, strides=(2, 1), padding="same"),
    "conv2d of unknown sizes": each(
        "conv2d",
        _MAP,
        {"filters": 3, "kernel_size": (3, 2)},
        {"filters": 3, "kernel_size": 3, "dilation_rate": (2, 1), "padding": "same"},
        {"filters": 3, "kernel_size": 1, "use_bias": False},
        static=[None, None, None, 4],
    ),
    "conv2d, channels first": each(
        "conv2d",
        [2, 4, 7, 6],
        {"filters": 3, "kernel_size": 3, "strides": 2, **_FIRST},
        {"filters": 3, "kernel_size": 3, "dilation_rate": 2, "padding": "same", **_FIRST},
    ),
    "conv3d": each(
        "conv3d",
        _VOLUME,
        {"filters": 3, "kernel_size": 2, "strides": (1, 2, 1)},
        {"filters": 2, "kernel_size": 3, "padding": "same", "use_bias": False},
        static=[None, 4, 5, 4, 3],
    ),
    "conv3d, channels first": each("conv3d", [2, 3, 4, 5, 4], {"filters": 3, "kernel_size": 2, **_FIRST}),
    "conv2d_transpose": with_all_losses("conv2d_transpose", _MAP, kernel_size=3, strides=(2, 1)),
    "conv2d_transpose of unknown sizes": each(
        "conv2d_transpose",
        _MAP,
        {"filters": 3, "kernel_size": 3, "strides": 2, "padding": "same"},
        {"filters": 3, "kernel_size": (2, 3), "strides": (3, 1), "use_bias": False},
        static=[None, None, None, 4],
    ),
    "conv2d_transpose, channels first": each(
        "conv2d_transpose", [2, 4, 5, 3], {"filters": 3, "kernel_size": 3, "strides": 2, **_FIRST}
    ),
    "conv3d_transpose": each(
        "conv3d_transpose",
        _VOLUME,
        {"filters": 3, "kernel_size": 3, "strides": 2},
        {"filters": 2, "kernel_size": 2, "padding": "same", "use_bias": False},
        static=[None, None, 5, 4, 3],
    ),
    "separable_conv1d": each(
        "separable_conv1d",
        _SEQUENCE,
        {"filters": 3, "kernel_size": 3, "strides": 2, "depth_multiplier": 2},
        {"filters": 3, "kernel_size": 2, "padding": "causal", "use_bias": False},
        static=[None, None, 4],
    ),
    "separable_conv2d": with_all_losses(
        "separable_conv2d", _MAP, ("depthwise", "pointwise", "bias"), kernel_size=3, strides=2, depth_multiplier=2
    ),
    "separable_conv2d, dilated": each(
        "separable_conv2d", _MAP, {"filters": 3, "kernel_size": 3, "dilation_rate": 2, "padding": "same"}
    ),
    "pooling of sequences": lambda tf: [
        getattr(tf.layers, f"{kind}_pooling1d")(numbers(tf, _SEQUENCE, [None, None, 4]), 3, 2, padding)
        for kind in ("max", "average")
        for padding in ("same", "valid")
    ],
    "pooling": lambda tf: [
        getattr(tf.layers, f"{kind}_pooling2d")(numbers(tf, _MAP, [None, None, None, 4]), (3, 2), (2, 1), padding)
        for kind in ("max", "average")
        for padding in ("same", "valid")
    ],
    "pooling of volumes": lambda tf: [
        getattr(tf.layers, f"{kind}_pooling3d")(numbers(tf, _VOLUME), 2, 1, **kwargs)
        for kind in ("max", "average")
        for kwargs in ({"padding": "same"}, _FIRST)
    ],
    "pooling, channels first": lambda tf: [
        tf.layers.max_pooling1d(numbers(tf, _SEQUENCE), 3, 2, **_FIRST),
        tf.layers.max_pooling2d(numbers(tf, _MAP), 3, 2, **_FIRST),
        tf.layers.average_pooling2d(numbers(tf, _MAP), 3, 2, "same", **_FIRST),
    ],
    "batch_normalization": each(
        "batch_normalization",
        [6, 4],
        {"training": True},
        {},
        {"training": True, "center": False, "scale": False},
        {"training": True, "trainable": False, "momentum": 0.5},
        static=[None, 4],
    ),
    "batch_normalization, fused": each(
        "batch_normalization",
        [3, 4, 2, 4],
        {"training": True},
        {},
        {"training": True, "center": False, "scale": False, "epsilon": 0.01},
        {"training": True, "fused": False},
        {"training": True, "axis": 1},
        {"training": True, "axis": 2},
        {"training": True, "axis": [1, 2]},
        static=[None, 4, 2, 4],
    ),
    "batch_normalization of volumes": each("batch_normalization", _VOLUME, {"training": True, "fused": False}),
    "batch_normalization in 64 bits": each("batch_normalization", [4, 2, 3, 4], {"training": True}, dtype="float64"),
    "batch_normalization in 16 bits": each(
        "batch_normalization", [4, 2, 3, 4], {"training": True}, {"training": True, "fused": False}, dtype="float16"
    ),
    "batch_normalization in groups": each(
        "batch_normalization",
        [6, 3, 4],
        {"training": True, "virtual_batch_size": 2},
        {"virtual_batch_size": 2},
        {"training": True, "virtual_batch_size": 3, "renorm": True},
        {"training": True, "virtual_batch_size": 3, "axis": 1},
    ),
    "batch_normalization, corrected": each(
        "batch_normalization",
        [6, 4],
        {"training": True, "renorm": True},
        {"renorm": True},
        {"training": True, "renorm": True, "renorm_clipping": {"rmax": 1.3, "rmin": 0.8, "dmax": 0.3}, "scale": False},
        {"training": True, "renorm": True, "renorm_momentum": 0.8, "momentum": 0.7, "axis": 0},
    ),
    "batch_normalization, adjusted": lambda tf: [
        tf.layers.batch_normalization(
            numbers(tf, [6, 4]), training=training, adjustment=lambda shape: (tf.fill(shape, 1.5), tf.fill(shape, 0.2))
        )
        for training in (True, False)
    ],
}
# Whether to train is decided by fewer operations when the graph runs, and some names are those of 1.15.
OTHER_NAMES: dict[str, Case] = {
    "conv1d, channels first": each(
        "conv1d",
        [2, 4, 7],
        {"filters": 3, "kernel_size": 3, **_FIRST},
        {"filters": 3, "kernel_size": 2, "use_bias": False, **_FIRST},
    )
}
_LATER: dict[str, Case] = {
    f"batch_normalization, {kind}, {'training' if is_training else 'not training'} when it runs": training_later(
        shape, is_training, **kwargs
    )
    for is_training in (True, False)
    for kind, shape, kwargs in (
        ("plain", [6, 4], {}),
        ("fused", [3, 4, 2, 4], {}),
        ("corrected", [6, 4], {"renorm": True, "renorm_clipping": {"rmax": 1.3}}),
    )
}
OTHER_NAMES.update(_LATER)
REFUSED: dict[str, Case] = {
    "an unknown depth": each("dense", [2, 4], {"units": 3}, static=[None, None]),
    "an unknown rank": each("dense", [2, 4], {"units": 3}, static=None),
    "a vector": each("dense", [4], {"units": 3}),
    "integers": lambda tf: tf.layers.dense(tf.ones([2, 3], tf.int32), 4),
    "unknown channels": each("conv2d", _MAP, {"filters": 2, "kernel_size": 3}, static=[None, None, None, None]),
    "another rank": each("conv2d", _SEQUENCE, {"filters": 2, "kernel_size": 3}),
    "an unknown padding": each("conv2d", _MAP, {"filters": 2, "kernel_size": 3, "padding": "causal"}),
    "too many sizes": each("conv2d", _MAP, {"filters": 2, "kernel_size": (3, 3, 3)}),
    "an unknown format": each("conv2d", _MAP, {"filters": 2, "kernel_size": 3, "data_format": "NHWC"}),
    "strides and dilation": each("conv2d", _MAP, {"filters": 2, "kernel_size": 3, "strides": 2, "dilation_rate": 2}),
    "pooling of another rank": each("max_pooling2d", _SEQUENCE, {"pool_size": 2, "strides": 2}),
    "an axis that is not there": each("batch_normalization", [2, 3], {"axis": 2}),
    "a name that is taken": lambda tf: [tf.layers.dense(numbers(tf, [2, 3]), 4, name="a") for _ in "12"],
    "nothing to reuse": lambda tf: tf.layers.dense(numbers(tf, [2, 3]), 4, name="a", reuse=True),
    "an unknown argument": lambda tf: tf.layers.Dense(4, colour="red"),
    "an unknown activation": lambda tf: tf.layers.Dense(4, "sigh"),
    "another depth at the second call": lambda tf: [
        layer(numbers(tf, [2, size])) for layer in [tf.layers.Dense(4)] for size in (3, 5)
    ],
    "scope_name before the first call": lambda tf: tf.layers.Dense(4).scope_name,
    "count_params before the first call": lambda tf: tf.layers.Dense(4).count_params(),
}
CASES.update(OTHER_NAMES)
CASES.update(REFUSED)


def names_of(*starts: str) -> list[str]:
    """Return the names of the cases that are to be equal in all, by how they start."""
    return [name for name in CASES if name.startswith(starts) and name not in (*OTHER_NAMES, *REFUSED)]
