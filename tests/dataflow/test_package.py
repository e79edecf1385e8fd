"""The package of flows as a whole: what it gives, and what a process that uses a part of it has to load."""

import subprocess
import sys

import numpy as np
import pytest

import tpack.dataflow
from tpack.dataflow.mapping import MapData
from tpack.dataflow.parallel.process_map import MultiProcessMapData
from tpack.dataflow.parallel.process_runner import MultiProcessRunner
from tpack.dataflow.sources import DataFromList

# Each takes longer to import than a flow; what they are for, bars, downloads, files and augmentation, is not used here.
SLOW = {"tensorflow", "tqdm", "ssl", "urllib.request", "importlib.metadata", "tabulate", "cv2", "lmdb", "h5py", "zmq"}
UNUSED = {"tpack.dataflow.imgaug", "tpack.dataflow.images", "tpack.dataflow.storage", "tpack.dataflow.remote"}


def loaded_by(code):
    """Return the modules that a new process has loaded after some code."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_star_gives_all_names():
    names = {}
    exec("from tpack.dataflow import *", names)
    assert set(tpack.dataflow.__all__) <= set(names)
    assert names["imgaug"].Resize.__module__ == "tpack.dataflow.imgaug.resize"


def test_importing_the_package_loads_none_of_its_modules():
    loaded = {name for name in loaded_by("import tpack.dataflow") if name.startswith("tpack.dataflow.")}
    assert loaded == set()


def test_importing_the_package_does_not_even_load_numpy():
    assert "numpy" not in loaded_by("import tpack.dataflow")


def test_a_name_loads_what_it_needs():
    loaded = loaded_by("from tpack.dataflow import BatchData, MapData, MultiProcessRunner, RepeatedData")
    assert "tpack.dataflow.parallel.process_runner" in loaded
    assert not (SLOW | UNUSED | {"tpack.dataflow.parallel.threads", "tpack.dataflow.cache"}) & loaded


def test_all_names_together_load_nothing_slow():
    assert not SLOW & loaded_by("from tpack.dataflow import *")


@pytest.mark.parametrize(
    "workers",
    [
        lambda points, what: MultiProcessRunner(MapData(DataFromList(points), what), 2, 1),
        lambda points, what: MultiProcessMapData(DataFromList(points), 1, what, buffer_size=2, strict=True),
    ],
    ids=["runner", "map"],
)
def test_workers_load_what_their_flow_needs(workers):
    flow = workers([[np.full(3, k)] for k in range(4)], lambda _: [sorted(sys.modules)])
    flow.reset_state()
    loaded = set(next(iter(flow))[0])
    assert {"numpy", "tpack.dataflow.parallel.worker"} <= loaded
    assert (SLOW | UNUSED | {"tpack.dataflow.parallel.threads", "tpack.dataflow.cache"}) & loaded == set()


def test_a_process_runner_loads_few_modules():
    """Each worker imports them before it reads its first data point; those of older names are not counted."""
    code = (
        "import sys; import tpack.dataflow.parallel.process_runner;"
        "print(*[name for name, module in sys.modules.items() if '__file__' in vars(module)])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    ours = [name for name in loaded if name.split(".")[0] == "tpack" and not name.startswith("tpack.legacy")]
    assert len(ours) <= 25, sorted(ours)
