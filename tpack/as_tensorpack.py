"""Run a script of tensorpack's unedited: ``python -m tpack.as_tensorpack train.py --its arguments``."""

import os
import runpy
import sys
from collections.abc import Sequence

from tpack.legacy.as_tensorpack import install_as_tensorpack

_USAGE = "usage: python -m tpack.as_tensorpack SCRIPT [ARGUMENTS...]"
_WRITTEN_FOR_1 = (
    "{script}: TensorFlow 2 has no tf.{name}, and TensorFlow is left as the script imports it: write "
    "'import tpack.tf1 as tf', or let 'tpack migrate {script}' do it"
)


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
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0].startswith("-"):
        sys.stderr.write(f"{_USAGE}\n")
        return 0 if given[:1] in (["-h"], ["--help"]) else 2
    script = given[0]
    if not os.path.isfile(script):
        sys.stderr.write(f"{_USAGE}\n{script!r} is no file\n")
        return 2
    install_as_tensorpack()
    sys.argv = given
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    try:
        runpy.run_path(script, run_name="__main__")
    except AttributeError as error:
        if getattr(error.obj, "__name__", None) != "tensorflow":
            raise
        raise AttributeError(_WRITTEN_FOR_1.format(script=script, name=error.name)) from error
    return 0


if __name__ == "__main__":
    sys.exit(main())
