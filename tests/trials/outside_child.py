"""Run one program that others wrote, in this process, until it has made its steps.

    python -m tests.trials.outside_child WAY RESULT STEPS SECONDS FOLDER SCRIPT [ARGUMENT ...]

`tests.trials.outside_code` starts it. With the WAY ``forced``, names that Python, numpy and scipy removed are put back.
The file RESULT holds a line of JSON with the number of steps and the end of the program, from the first step on. A
SCRIPT ``-m`` is followed by the name of a module.
"""

import json
import os
import runpy
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import tpack
from tests.trials import outside_stand_ins
from tests.trials.outside_counting import StepCounter

ROOT = Path(__file__).resolve().parents[2]
# What is tried is this checkout; its folder is no place to look for the program's own modules, and leaves the path.
assert Path(tpack.__file__).resolve().parents[1] == ROOT


class Outcome:
    """What is known of the run by now, and the file that it is written to."""

    def __init__(self, path: Path, max_steps: int) -> None:
        self.path = path
        self.max_steps = max_steps
        self.counter = StepCounter(self.write_step)

    def write(self, ended: str, error: str = "", trace: str = "") -> None:
        """Write the file anew."""
        counts = {"steps": self.counter.num_steps, "not_finite": self.counter.num_not_finite}
        text = json.dumps({**counts, "ended": ended, "error": error, "trace": trace})
        temporary = self.path.with_suffix(".new")
        temporary.write_text(text)
        temporary.rename(self.path)

    def write_step(self, counter: StepCounter) -> None:
        """Write after a step, and end the process when there were enough."""
        self.write("within the time")
        if counter.num_steps >= self.max_steps:
            self.write("at the limit of steps")
            leave(0)


def leave(status: int) -> None:
    """End this process with whatever threads it has: input of TensorFlow 1 is fed by some that nobody joins."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main(way: str, result: str, max_steps: str, seconds: str, folder: str, *command: str) -> None:
    outcome = Outcome(Path(result), int(max_steps))
    timer = threading.Timer(float(seconds), lambda: leave(3))
    timer.daemon = True
    timer.start()
    if way == "forced":
        outside_stand_ins.put_back()
    outcome.counter.install()
    os.chdir(folder)
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != ROOT]
    try:
        run_program(list(command))
    except SystemExit as stop:
        outcome.write("by itself" if stop.code in (None, 0) else "by exit", f"exit status {stop.code}")
        leave(0)
    except BaseException as error:  # noqa: BLE001
        outcome.write("by an error", f"{type(error).__name__}: {error}", _frames(error))
        traceback.print_exc()
        leave(1)
    outcome.write("by itself")
    leave(0)


def run_program(command: list[str]) -> None:
    """Run a script, or a module after ``-m``, as Python would."""
    if command[0] == "-m":
        sys.path.insert(0, os.getcwd())
        sys.argv = command[1:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        return
    script = Path(command[0]).resolve()
    sys.path.insert(0, str(script.parent))
    sys.argv = [str(script), *command[1:]]
    runpy.run_path(str(script), run_name="__main__")


def _frames(error: Any) -> str:
    """Return where the error came from, the last frames first."""
    frames = traceback.extract_tb(error.__traceback__)[-12:]
    return " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames))


if __name__ == "__main__":
    main(*sys.argv[1:])
