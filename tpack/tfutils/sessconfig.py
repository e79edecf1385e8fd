"""The session configuration that tpack uses unless the user brings one."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError


def get_default_sess_config(mem_fraction: float = 0.99) -> Any:
    """Return a new ConfigProto: soft placement, and GPU memory that grows up to a fraction of what there is.

    Soft placement is needed for operations without a GPU kernel. It never moves a tower, since the session creator
    checks that every device that the graph asks for exists.

    Args:
        mem_fraction: the share of each GPU's memory that this process may use.

    Raises:
        ConfigError: ``mem_fraction`` is not in (0, 1].
    """
    if not 0 < mem_fraction <= 1:
        raise ConfigError(f"wanted a fraction of the GPU memory in (0, 1], got mem_fraction={mem_fraction!r}")
    config = tf.ConfigProto(allow_soft_placement=True)
    config.gpu_options.per_process_gpu_memory_fraction = mem_fraction
    config.gpu_options.allow_growth = True
    return config
