"""Hold the elements of a ``tf.data`` pipeline against a signature, one by one, where their shapes are not known before.

A pipeline that passes through Python knows nothing of shapes. A wrong one would surface as the error of whatever
operation of the model meets it first; and a model that asks for the number of channels would get no answer.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf


def with_checked_shapes(dataset: Any, components: Sequence[Any], signature: Sequence[Any]) -> Any:
    """Return the dataset with the shapes of the signature.

    Args:
        dataset: any ``tf.data.Dataset``.
        components: the positions or keys of an element's parts, in the order of the signature; empty for a single
            tensor.
        signature: ``tf.TensorSpec`` each.

    Returns:
        A dataset of the same elements, whose iteration fails at one of a wrong shape with a message that names the
        element and the component; the same dataset if TensorFlow knows all shapes, or that one of them is wrong.
    """
    wanted = dict(zip(components, signature, strict=False)) or {None: signature[0]}
    open_ones = {part: spec for part, spec in wanted.items() if _adds_to(_part(dataset.element_spec, part), spec)}
    if not open_ones:
        return dataset

    @tf.autograph.experimental.do_not_convert
    def check(index: Any, element: Any) -> Any:
        checked = {
            part: _checked(index, _part(element, part), f"component {list(wanted).index(part)} ({spec.name})", spec)
            for part, spec in open_ones.items()
        }
        if None in checked:
            return checked[None]
        if isinstance(element, dict):
            return {**element, **checked}
        return tuple(checked.get(k, item) for k, item in enumerate(element))

    return dataset.enumerate().map(check)


def _part(element: Any, part: Any) -> Any:
    return element if part is None else element[part]


def _adds_to(known: Any, wanted: Any) -> bool:
    """Tell whether the wanted shape says more than the known one, and does not contradict it."""
    if not isinstance(known, tf.TensorSpec) or not known.shape.is_compatible_with(wanted.shape):
        return False
    return str(known.shape.merge_with(wanted.shape)) != str(known.shape)


def _checked(index: Any, tensor: Any, label: str, spec: Any) -> Any:
    wanted = [-1 if size is None else size for size in spec.shape.as_list()]
    came = tf.shape(tensor)
    fits = tf.cond(
        tf.equal(tf.rank(tensor), len(wanted)),
        lambda: tf.reduce_all(tf.equal(came, wanted) | tf.equal(wanted, -1)),
        lambda: tf.constant(False),
    )
    # Without quotes, which an assertion would show with backslashes.
    message = tf.strings.format(
        f"element {{}} of the dataset: {label} has shape {{}}, wanted {spec.shape}", (index, came)
    )
    with tf.control_dependencies([tf.debugging.Assert(fits, [message])]):
        same = tf.identity(tensor)
    same.set_shape(spec.shape)
    return same
