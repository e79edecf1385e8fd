"""The default session configuration."""

import os

import pytest

from tpack.errors import ConfigError
from tpack.tfutils.sesscreate import get_default_sess_config


def test_default_config_places_softly_and_lets_memory_grow() -> None:
    before = dict(os.environ)
    config = get_default_sess_config(0.5)
    assert config.allow_soft_placement
    assert config.gpu_options.allow_growth
    assert config.gpu_options.per_process_gpu_memory_fraction == 0.5
    assert get_default_sess_config().gpu_options.per_process_gpu_memory_fraction == 0.99
    assert dict(os.environ) == before


@pytest.mark.parametrize("fraction", [0, -0.5, 1.01])
def test_default_config_rejects_fractions_outside_of_0_to_1(fraction: float) -> None:
    with pytest.raises(ConfigError, match=r"in \(0, 1\], got mem_fraction="):
        get_default_sess_config(fraction)
