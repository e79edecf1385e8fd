"""Run a script of tensorpack's unedited: ``python -m tpack.as_tensorpack train.py --its arguments``."""

import importlib.util
import sys
from collections.abc import Sequence

from tpack.legacy.as_horovod import install_as_horovod
from tpack.legacy.as_tensorpack import install_as_tensorpack, run_script

_USAGE = "usage: python -m tpack.as_tensorpack SCRIPT [ARGUMENTS...]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a script in which ``import tensorpack`` gives tpack, as ``python SCRIPT`` would run it.

    Args:
        arguments: the script and its arguments; None means those of the command line.

    Returns:
        The exit code: 2 where there is no script. One that ends by an exception or ``sys.exit`` does so here.

    Raises:
        ImportError: tensorpack was imported already, and it is not tpack.
        AttributeError: The script wants a name of TensorFlow 1 of TensorFlow 2.
    """
    return run_script(arguments, _USAGE, _install)


def _install() -> None:
    """Install tensorpack's names, and Horovod's, which its largest scripts use, if there is no Horovod."""
    install_as_tensorpack()
    if importlib.util.find_spec("horovod") is None:
        install_as_horovod()


if __name__ == "__main__":
    sys.exit(main())
