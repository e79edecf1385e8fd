"""The machine that tensorpack's programs see in a trial: few steps, small data sets, GPUs in name, windows that close.

`tests.trials.tensorpack_programs` starts a program as ``python script.py``, with a ``sitecustomize`` on its path that
calls `install`. Modules are changed when the program imports them, and none is imported here.

- ``TRIAL_STEPS``: no run has more steps per epoch, and none more than two epochs.
- ``TRIAL_GPUS``: the number of GPUs that scripts read; tpack itself sees the real machine.
"""

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

MAX_EPOCHS = 2
MAX_IMAGES = 256


def install() -> None:
    """Change modules as they are imported from now on."""
    sys.meta_path.insert(0, _Finder())


def _shorten_config(module: Any) -> None:
    make = module.TrainConfig.__init__

    def make_shorter(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        self.steps_per_epoch, self.max_epoch = _fewer(self.steps_per_epoch), MAX_EPOCHS

    module.TrainConfig.__init__ = make_shorter


def _shorten_defaults(module: Any) -> None:
    train = module.Trainer.train_with_defaults

    def train_shorter(self: Any, *args: Any, **kwargs: Any) -> None:
        steps = _fewer(kwargs.get("steps_per_epoch"))
        train(self, *args, **{**kwargs, "steps_per_epoch": steps, "max_epoch": MAX_EPOCHS})

    module.Trainer.train_with_defaults = train_shorter


def _fewer(steps: int | None) -> int:
    return min(steps or sys.maxsize, int(os.environ.get("TRIAL_STEPS", "2")))


def _shrink_images(module: Any) -> None:
    make = module.LabelledImages.__init__

    def make_smaller(self: Any, images: Any, labels: Any, shuffle: bool) -> None:
        make(self, images[:MAX_IMAGES], labels[:MAX_IMAGES], shuffle)

    module.LabelledImages.__init__ = make_smaller


def _claim_gpus(module: Any) -> None:
    count = module.get_num_gpu

    def get_num_gpu() -> int:
        asks = sys._getframe(1).f_globals.get("__name__", "")
        return int(count()) if asks.startswith("tpack") else int(os.environ.get("TRIAL_GPUS", "0"))

    module.get_num_gpu = module.get_nr_gpu = get_num_gpu


def _claim_available(module: Any) -> None:
    if os.environ.get("TRIAL_GPUS", "0") != "0":
        module.tfv1.test.is_gpu_available = lambda *_, **__: True


def _close_windows(module: Any) -> None:
    for name in ("imshow", "namedWindow", "setMouseCallback", "destroyWindow"):
        setattr(module, name, lambda *_: None)
    module.waitKey = lambda *_: ord("x")


_CHANGES: dict[str, Callable[[ModuleType], None]] = {
    "cv2": _close_windows,
    "tpack.compat": _claim_available,
    "tpack.dataflow.dataset.image_lists": _shrink_images,
    "tpack.train.config": _shorten_config,
    "tpack.train.trainer": _shorten_defaults,
    "tpack.utils.gpu": _claim_gpus,
}


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules to be changed as the other finders do, and changes them once they are loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _CHANGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            _change_after(spec.loader, _CHANGES[name])
        return spec


def _change_after(loader: Any, change: Callable[[ModuleType], None]) -> None:
    execute = loader.exec_module

    def execute_and_change(module: ModuleType) -> None:
        execute(module)
        change(module)

    loader.exec_module = execute_and_change
