"""``tf.contrib.stateless``: random numbers that follow from a seed alone."""

from tpack.tf1.name_table import look_up

_PLACES = {
    "stateless_multinomial": "tf.random.stateless_multinomial",
    "stateless_random_normal": "tf.random.stateless_normal",
    "stateless_random_uniform": "tf.random.stateless_uniform",
    "stateless_truncated_normal": "tf.random.stateless_truncated_normal",
}

__getattr__, __dir__, __all__ = look_up(__name__, _PLACES)
