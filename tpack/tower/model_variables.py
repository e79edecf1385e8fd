"""Variables that belong to the model though they are not trained: moving averages, and weights that are frozen.

They are in the collection MODEL_VARIABLES. Whoever writes a model without what only its optimizer needs, writes these
and the trainable variables.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tower.context import get_current_tower_context


def add_model_variable(variable: Any) -> None:
    """Add a variable to MODEL_VARIABLES, once.

    Of training towers, the first one adds. What the others have are the same variables, or copies, which are not part
    of the model.

    Args:
        variable: the variable itself.
    """
    tower = get_current_tower_context()
    if tower is not None and tower.is_training and not tower.is_main_tower:
        return
    if not any(known is variable for known in tf.get_collection(tf.GraphKeys.MODEL_VARIABLES)):
        tf.add_to_collection(tf.GraphKeys.MODEL_VARIABLES, variable)
