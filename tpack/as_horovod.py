"""Run a script of Horovod's unedited: ``tpack launch -n 4 -m tpack.as_horovod train.py --its arguments``."""

import sys
from collections.abc import Sequence

from tpack.legacy.as_horovod import install_as_horovod
from tpack.legacy.as_tensorpack import run_script

_USAGE = "usage: python -m tpack.as_horovod SCRIPT [ARGUMENTS...]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a script in which ``import horovod.tensorflow`` gives `tpack.horovod`, as ``python SCRIPT`` would run it.

    Args:
        arguments: the script and its arguments; None means those of the command line.

    Returns:
        The exit code: 2 where there is no script. One that ends by an exception or ``sys.exit`` does so here.

    Raises:
        ImportError: horovod was imported already, and it is not tpack.
        AttributeError: The script wants a name of TensorFlow 1 of TensorFlow 2.
    """
    return run_script(arguments, _USAGE, install_as_horovod)


if __name__ == "__main__":
    sys.exit(main())
