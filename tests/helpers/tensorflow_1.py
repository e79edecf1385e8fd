"""Run a program in the Python of TensorFlow 1.15, for the trials that compare with it.

TensorFlow 2 sets ``TF2_BEHAVIOR`` when it is imported, for itself and for the children of its process. In 1.15 the same
variable turns on the variables and loops of TensorFlow 2, and what is compared is then not what 1.15 does by itself.
"""

import os
import subprocess
import sys
from collections.abc import Sequence

_SET_BY_TENSORFLOW_2 = "TF2_BEHAVIOR"


def run(command: Sequence[str], *, path: str | None = None) -> None:
    """Run a command to its end, and end this process with its last lines if it fails.

    Args:
        command: the other Python and its arguments.
        path: what it can import, in place of what this process can.
    """
    kept = {name: value for name, value in os.environ.items() if name not in (_SET_BY_TENSORFLOW_2, "PYTHONPATH")}
    env = {**kept, "TF_CPP_MIN_LOG_LEVEL": "3", **({} if path is None else {"PYTHONPATH": path})}
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, env=env, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
