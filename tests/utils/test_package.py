"""The public names of tpack.utils."""

import tpack.utils

NAMES = [
    "change_env",
    "execute_only_once",
    "fix_rng_seed",
    "get_rng",
    "get_tqdm",
    "humanize_time_delta",
    "logger",
]


def test_all_is_what_scripts_import():
    assert tpack.utils.__all__ == NAMES


def test_every_name_can_be_loaded():
    assert [name for name in NAMES if not hasattr(tpack.utils, name)] == []
