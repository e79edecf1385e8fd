"""The table for a bug report."""

import sys
from typing import Any

import tensorflow.compat.v1 as tf

from tests.helpers.fake_nvml import two_gpus
from tpack.tfutils import collect_env
from tpack.tfutils.collect_env import collect_env_info
from tpack.version import __version__


def test_versions_processors_and_environment_are_told(monkeypatch: Any) -> None:
    gpus = two_gpus()
    gpus.gpus[1]["memory"] = (141 * 2**30, 0)
    monkeypatch.setitem(sys.modules, "pynvml", gpus)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    rows = dict(line.split(None, 1) for line in collect_env_info().splitlines() if len(line.split(None, 1)) == 2)
    assert rows["tpack"] == __version__
    assert rows["TensorFlow"].startswith(tf.version.VERSION)
    assert rows["CUDA_VISIBLE_DEVICES"] == "1"
    assert "GPU 1       " in collect_env_info()
    assert "New 2, 141.0 GiB" in collect_env_info()


def test_no_gpu_is_no_error(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(collect_env, "get_num_gpu", lambda: 0)
    rows = dict(line.split(None, 1) for line in collect_env_info().splitlines() if len(line.split(None, 1)) == 2)
    assert rows["GPUs"] == "none"
    monkeypatch.setattr(collect_env, "get_num_gpu", lambda: 2)
    text = collect_env_info()
    assert "2; more about them: " in text
    assert "pip install 'tpack[gpu]'" in text
    assert "CUDA_VISIBLE_DEVICES" not in text
