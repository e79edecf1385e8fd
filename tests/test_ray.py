"""Training on a real Ray cluster on this machine, which each test starts in a process of its own."""

import importlib.util
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from tests.helpers.launching import Launched, assert_gone
from tests.helpers.source import ROOT
from tpack.cli.main import main
from tpack.errors import ConfigError, DependencyError
from tpack.ray import RayOptions, launch_on_ray

LIMIT_SECS = 300.0
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs Ray, which is not installed: pip install 'tpack[ray]'"
)


@pytest.fixture
def environment():
    """What keeps Ray's files out of the home directory, and short enough for the names of its sockets."""
    directory = tempfile.mkdtemp(prefix="tray")
    told = {"RAY_TMPDIR": directory, "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    # What this process sets for its own TensorFlow is not needed, and neither is what Ray says of itself.
    yield {**os.environ, **told, "PYTHONPATH": str(ROOT), "RAY_enable_metrics_collection": "0"}
    # Ray's services of a program that was killed try for a minute to tell a server that is gone as well.
    while services := [process for process in psutil.process_iter() if _is_in(process, directory)]:
        for process in services:
            process.kill()
        assert_gone([process.pid for process in services])
    shutil.rmtree(directory)


def _is_in(process: psutil.Process, directory: str) -> bool:
    """Whether a process logs into a directory: Ray's services write their titles over their environment."""
    try:
        return any(file.path.startswith(directory) for file in process.open_files())
    except psutil.Error:  # Somebody else's, or it has ended.
        return False


def run(directory: Path, script: str, environment: dict[str, str]) -> tuple[dict[str, object], str]:
    """Run a script that calls ``launch_on_ray``; return what it wrote, and its output."""
    (directory / "caller.py").write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "caller.py"],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_SECS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return json.loads((directory / "told.json").read_text(encoding="utf-8")), done.stdout


CALLS = """
import functools, json, os, signal, sys, threading, time
import psutil, ray
from ray.cluster_utils import Cluster
from tpack.errors import ClusterError
from tpack.ray import RayOptions, launch_on_ray

# Two nodes, as far as Ray knows, with GPUs that are not there.
SMALL = {"object_store_memory": 1 << 27}
head = {"num_cpus": 2, "num_gpus": 2, "include_dashboard": False, **SMALL}
cluster = Cluster(initialize_head=True, head_node_args=head)
second_node = cluster.add_node(num_cpus=2, **SMALL)
ray.init(address=cluster.address, log_to_driver=False)
TOLD = {}

def place(number, offset):
    from tpack.multi_worker.cluster import resolve_cluster
    from tpack.utils import logger
    member = resolve_cluster(timeout_secs=10)
    logger.set_logger_dir("log", action="d")
    with open(os.path.join(logger.get_logger_dir(), "stats.json"), "w") as file:
        json.dump([{"epoch_num": 1, "cost": 0.5}, {"epoch_num": 2, "cost": 0.25 + member.rank}], file)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "EXTRA")
    told = [os.environ[name] for name in names] + [len(os.environ["TPACK_CLUSTER_SECRET"])]
    return number + offset, member.rank, member.workers, member.gpus(1), told

started = launch_on_ray(
    functools.partial(place, 40, offset=2),
    2,
    resources_per_worker={"CPU": 1, "GPU": 1},
    log_dir="first",
    options=RayOptions(environment={"EXTRA": "x"}),
)
TOLD["values"], TOLD["metrics"], TOLD["log_dir"] = started.values, started.metrics, started.log_dir

def fail_in_one():
    if os.environ["RANK"] == "1":
        raise ValueError("broken in one")
    time.sleep(1000)

def lose_an_actor():
    # Counts up to ten, from where it was: what is written down is the checkpoint.
    rank, attempt = os.environ["RANK"], int(os.environ["TPACK_RESTART_COUNT"])
    open(f"pid{attempt}-{rank}", "w").write(str(os.getpid()))
    step = len(os.listdir("steps")) if rank == "0" else 0
    while not all(os.path.exists(f"pid{attempt}-{each}") for each in range(2)):
        time.sleep(0.01)
    if attempt == 0 and rank == "1":
        while len(os.listdir("steps")) < 5:
            time.sleep(0.01)
        # The parent is the agent, and the one above the actor.
        psutil.Process().parent().parent().kill()
        time.sleep(1000)
    while rank == "0" and step < 10:
        if attempt == 0 and step == 5:
            time.sleep(1000)
        open(f"steps/{step}", "x").close()
        step += 1
    return attempt, step

def interrupt(caller):
    os.kill(caller, signal.SIGINT)
    time.sleep(1000)

def said(call):
    try:
        call()
    except (ClusterError, KeyboardInterrupt) as error:
        return [type(error).__name__, str(error)]

def lose_a_node():
    if os.environ["TPACK_RESTART_COUNT"] == "0":
        open("node" + os.environ["RANK"], "w").write(str(os.getpid()))
        time.sleep(1000)
    return os.environ["RANK"]

def replace_the_node():
    while not (os.path.exists("node0") and os.path.exists("node1")):
        time.sleep(0.01)
    cluster.remove_node(second_node)
    cluster.add_node(num_cpus=2, **SMALL)

def in_a_thread(name, call):
    TOLD[name] = call()

os.mkdir("steps")
TOLD["failed"] = said(lambda: launch_on_ray(fail_in_one, 2, log_dir="second"))
TOLD["replaced"] = launch_on_ray(lose_an_actor, 2, restarts=1, log_dir="third").values
TOLD["room"] = said(lambda: launch_on_ray(fail_in_one, 5, log_dir="fourth", options=RayOptions(start_timeout_secs=0.1)))
TOLD["interrupted"] = said(lambda: launch_on_ray(functools.partial(interrupt, os.getpid()), 1, log_dir="fifth"))
TOLD["is_connected"] = ray.is_initialized()
# Not in the main thread, which alone hears signals.
apart = RayOptions("STRICT_SPREAD")
spread = functools.partial(launch_on_ray, lose_a_node, 2, restarts=1, log_dir="sixth", options=apart)
caller = threading.Thread(target=in_a_thread, args=("moved", lambda: spread().values))
caller.start()
replace_the_node()
caller.join()
ray.shutdown()
cluster.shutdown()
json.dump(TOLD, open("told.json", "w"))
"""


@needs_ray
def test_a_function_is_called_in_workers_on_two_nodes_of_ray(tmp_path, environment):
    told, output = run(tmp_path, CALLS, environment)
    values = told["values"]
    workers = values[0][2]
    assert len(set(workers)) == 2
    for rank in (0, 1):
        ranks = [str(rank), "2", str(rank), "2"]
        assert values[rank][:4] == [42, rank, workers, [0]]
        assert values[rank][4][:4] == ranks
        assert values[rank][4][5:] == ["x", 64]
    # Each sees another GPU, and takes it for its own.
    assert {value[4][4] for value in values} == {"0", "1"}
    assert told["metrics"] == [{"epoch_num": 1, "cost": 0.5}, {"epoch_num": 2, "cost": 0.25}]
    assert told["log_dir"] == "first"
    kind, text = told["failed"]
    assert kind == "ClusterError"
    assert text.startswith("launch_on_ray: rank 1 (worker 1 on ")
    assert text.endswith("ValueError: broken in one")
    assert "[1] ValueError: broken in one" in output
    # The job went on from its fifth step, and the processes of the first attempt are gone.
    assert told["replaced"] == [[1, 10], [1, 0]]
    attempts = json.loads((tmp_path / "third" / "result.json").read_text(encoding="utf-8"))["attempts"]
    assert [(each["rank"], each["lost"]) for each in attempts] == [(1, [1]), (None, [])]
    assert_gone([int(path.read_text()) for path in [*tmp_path.glob("pid*"), *tmp_path.glob("node*")]])
    # A node went, and another one came.
    assert told["moved"] == ["0", "1"]
    assert told["room"][1].startswith(
        "launch_on_ray: Ray has had no room for 5 workers of CPU 1 each within 0.1 s (PACK)"
    )
    assert told["interrupted"] == ["KeyboardInterrupt", ""]
    assert told["is_connected"]


@needs_ray
def test_a_script_runs_on_ray_and_goes_with_the_launcher(tmp_path, environment):
    script = (
        "import os, time; print('pid', os.getpid()); print(os.getcwd(), os.environ['RANK'], 'ready'); time.sleep(1000)"
    )
    with Launched(tmp_path, script, "--on", "ray", "-n", "2", "--resources", "CPU=0.5", **environment) as launched:
        pids = launched.wait_for(2)
        launched.signal(signal.SIGKILL)
        assert launched.end() == -signal.SIGKILL
        assert_gone(pids)
    assert {f"[{rank}] {tmp_path} {rank} ready" for rank in (0, 1)} < set(launched.lines)


def test_without_ray_it_is_said_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DependencyError, match=r"this needs the package 'ray'.*pip install 'tpack\[ray\]'"):
        launch_on_ray(os.getpid, 1)
    (tmp_path / "s.py").touch()
    assert main(["launch", "--on", "ray", "s.py"]) == 1
    assert "this needs the package 'ray'" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["s.py"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_workers": 0}, "num_workers"),
        ({"restarts": -1}, "restarts"),
        ({"resources_per_worker": {"CPU": -1}}, "a worker needs 'CPU': -1: expected a resource's name, and a number"),
        ({"resources_per_worker": {"CPU": 0}}, "a worker needs nothing: expected resources such as"),
        ({"options": RayOptions(min_workers=3)}, "RayOptions got min_workers=3: expected at most num_workers, 2"),
    ],
)
def test_numbers_that_cannot_be_are_refused(tmp_path, monkeypatch, wrong, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        launch_on_ray(os.getpid, **{"num_workers": 2, **wrong})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"strategy": "ANY"},
            "RayOptions got strategy='ANY': expected one of PACK, SPREAD, STRICT_PACK, STRICT_SPREAD",
        ),
        ({"min_workers": 0}, "min_workers"),
        ({"start_timeout_secs": -1.0}, "start_timeout_secs"),
        ({"grace_secs": -1.0}, "grace_secs"),
    ],
)
def test_options_that_cannot_be_are_refused(wrong, message):
    with pytest.raises(ConfigError, match=message):
        RayOptions(**wrong)
