"""Train in a real kernel: the notebook among the examples, one training after another, and one that is interrupted.

    python -m tests.trials.notebooks

It needs `pip install nbclient ipykernel pandas`, and is to be run with and without ipywidgets. It raises where
something but TensorFlow writes to standard error, where a training leaves something behind, or where an interrupted one
cannot be resumed.
"""

import ast
import importlib.util
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

from tests.helpers.examples import FOLDER
from tests.helpers.source import ROOT

TIMEOUT_SECS = 300
SETUP = """
import gc, threading, weakref, numpy as np, psutil, tensorflow.compat.v1 as tf
from tpack import *

def train(kind=TrainConfig, **more):
    global trainer
    data = np.linspace(-1, 1, 640, dtype=np.float32)
    more["callbacks"] = [ModelSaver(), Tell()]
    trainer = SimpleTrainer()
    graphs.append(weakref.ref(trainer.graph))
    launch_train_with_config(kind(model=Model(), dataflow=(data, data), batch_size=64, log_dir="log", **more), trainer)

class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")]

    def build_graph(self, x, y):
        return tf.reduce_mean((x * tf.get_variable("w", []) - y) ** 2, name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)

class Tell(Callback):
    def _trigger_step(self):
        if self.global_step == 100:
            print("a hundred steps")

graphs = []
"""
LEFT = """
gc.collect()
dict(threads=threading.active_count(), children=len(psutil.Process().children()),
     graphs=sum(graph() is not None for graph in graphs))
"""


class Kernel:
    """A kernel that cells are executed in, one by one."""

    def __init__(self) -> None:
        self.manager, self._client = start_new_kernel()
        self.errors: list[str] = []

    def run(self, code: str, interrupt_at: str | None = None) -> tuple[str, str]:
        """Execute a cell; return what it printed, and what is shown of its last value, or the name of its error."""
        printed, shown = [], []

        def take(message):
            content = message["content"]
            if message["msg_type"] == "stream":
                (printed if content["name"] == "stdout" else self.errors).append(content["text"])
                if interrupt_at is not None and interrupt_at in content["text"]:
                    self.manager.interrupt_kernel()
            elif message["msg_type"] == "error":
                shown.append(content["ename"])
            elif message["msg_type"] == "execute_result":
                shown.append(content["data"]["text/plain"])

        self._client.execute_interactive(code, output_hook=take, timeout=TIMEOUT_SECS)
        return "".join(printed), "".join(shown)

    def end(self) -> None:
        """End the kernel."""
        self._client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def try_example(directory):
    notebook = nbformat.read(FOLDER / "notebook.ipynb", as_version=4)
    resources = {"metadata": {"path": str(directory)}}
    NotebookClient(notebook, timeout=TIMEOUT_SECS, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    check(without_tensorflow(output.text for output in outputs if output.get("name") == "stderr"), [])
    kinds = [kind for output in outputs if "data" in output for kind in output.data]
    check((kinds.count("image/png"), "text/html" in kinds), (2, True))
    # The live plot of each training is one display, with all of its epochs at the end.
    live = [
        output.data["text/html"]
        for output in outputs
        if output.output_type == "display_data" and "text/html" in output.data
    ]
    live = [text for text in live if "<svg" in text and "<table>" in text]
    check(len(live), 2)
    check([text.count("<tr>") for text in live], [11, 11])
    check("application/vnd.jupyter.widget-view+json" in kinds, has_widgets())
    print(f"the example: {outputs[-1].text.strip()}", flush=True)


def try_trainings(kernel, mode):
    kernel.run(SETUP)
    if mode == "graph":
        kernel.run("tf.disable_v2_behavior()")
    left = []
    for _ in range(4):
        printed, shown = kernel.run("train(max_epoch=2)")
        check(("Training has finished!" in printed, shown), (True, ""))
        left.append(ast.literal_eval(kernel.run(LEFT)[1]))
    # In graph mode the default graph, in which the first one was trained, is there as well.
    check(left[-1], {**left[1], "graphs": 1 if mode == "eager" else 2})
    check(kernel.run("len(trainer.history), trainer.history.to_pandas().shape[0]")[1], "(2, 2)")
    check(len([path for path in Path.cwd().glob("log*") if (path / "stats.json").exists()]), 4)
    print(f"{mode}: four trainings leave {left[-1]}", flush=True)


def try_interrupt(kernel):
    start = time.monotonic()
    printed, shown = kernel.run("train(max_epoch=1, steps_per_epoch=10**7)", interrupt_at="a hundred steps")
    secs = time.monotonic() - start
    check((shown, "Training was ended by a signal" in printed), ("KeyboardInterrupt", True))
    step = int(kernel.run("trainer.global_step")[1])
    check(kernel.run("trainer.interrupted")[1], "True")
    printed, shown = kernel.run(f"train(AutoResumeTrainConfig, max_epoch=1, steps_per_epoch={step} + 10)")
    check((f"global step {step}" in printed, "Training has finished!" in printed, shown), (True, True, ""))
    check(kernel.run("trainer.global_step")[1], str(step + 10))
    print(f"interrupted after {secs:.1f} s at step {step}, and resumed", flush=True)


def without_tensorflow(texts):
    own = re.compile(r"[IWE]0000 |WARNING: All log messages before absl|To enable the following")
    return [line for line in "".join(texts).splitlines() if not own.match(line)]


def has_widgets():
    return importlib.util.find_spec("ipywidgets") is not None


def check(found, expected):
    if found != expected:
        raise AssertionError(f"{found} is not {expected}")


def main():
    os.environ["PYTHONPATH"] = str(ROOT)
    print(f"with ipywidgets: {has_widgets()}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        try_example(directory)
        for mode in ("eager", "graph"):
            os.makedirs(os.path.join(directory, mode))
            os.chdir(os.path.join(directory, mode))
            kernel = Kernel()
            try:
                try_trainings(kernel, mode)
                try_interrupt(kernel)
                check(without_tensorflow(kernel.errors), [])
            finally:
                kernel.end()
        os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
