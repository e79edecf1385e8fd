"""Variables of launchers; some values were recorded from the real ones."""

import json
import os

import psutil
import pytest

from tpack.errors import ConfigError, WrongTypeError
from tpack.utils import launch_env
from tpack.utils.launch_env import ClusterRank, check_only_process, read_launch_env
from tpack.utils.tf_config import ClusterTask

# What `torchrun --nproc-per-node 2` sets, whose agent listens at MASTER_PORT; a static one without it.
TORCHRUN = {
    "RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
}
# A step of three machines.
SLURM = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "4",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "2",
    "SLURM_STEP_NODELIST": "n[07-08],gpu1",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
}
# What Open MPI 5 and MPICH 4 set in processes of one machine.
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_COMM_WORLD_NODE_RANK": "1",
    "PMIX_NAMESPACE": "prterun-vm-10719@1",
    "PMIX_RANK": "1",
}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "9", "MPI_LOCALNRANKS": "2", "MPI_LOCALRANKID": "1"}
TASK = {"cluster": {"chief": ["a:1"], "worker": ["b:1", "b:2"], "ps": ["c:1"]}, "task": {"type": "worker", "index": 1}}


def tf_config(**changes):
    return {"TF_CONFIG": json.dumps({**TASK, **changes})}


def changed(variables, **changes):
    """Return variables, changed; those that are None are left out."""
    return {name: value for name, value in {**variables, **changes}.items() if value is not None}


def place(variables):
    return read_launch_env(variables).place


def test_tf_config_names_a_task():
    found = read_launch_env(tf_config())
    assert (found.source, found.variable, found.size) == ("TF_CONFIG", "TF_CONFIG", 4)
    assert found.place.cluster == {"chief": ("a:1",), "worker": ("b:1", "b:2"), "ps": ("c:1",)}
    assert (found.place.job, found.place.index, found.place.rank) == ("worker", 1, 2)


@pytest.mark.parametrize(
    ("changes", "job", "index", "size"),
    [
        ({"task": {"type": "chief", "index": 0}}, "chief", 0, 4),
        ({"task": {"type": "ps", "index": "0"}}, "ps", 0, 4),
        ({"task": {"type": "evaluator", "index": 0}}, "evaluator", 0, 5),
        ({"cluster": {"master": ["a:1"]}, "task": {"type": "master", "index": 0}}, "chief", 0, 1),
        ({"cluster": {"worker": {"1": "a:2", "0": "a:1"}}}, "worker", 1, 2),
        ({"cluster": {"worker": ["[::1]:80"], "ps": []}, "task": None}, "worker", 0, 1),
        ({"cluster": {"worker": ["a:1"], "evaluator": ["b:1"]}, "task": {"type": "evaluator"}}, "evaluator", 0, 2),
    ],
)
def test_tf_config_of_every_role(changes, job, index, size):
    task = place(tf_config(**changes))
    assert isinstance(task, ClusterTask)
    assert (task.job, task.index, task.size) == (job, index, size)


WRONG_TF_CONFIG = [
    ("{", "expected JSON such as"),
    ("[1]", "expected JSON|expected a JSON object"),
    ('{"cluster": 5}', "expected a JSON object, as in"),
    ('{"cluster": {"worker": 5}}', "cluster.worker=5: expected a list of addresses"),
    ('{"task": "worker"}', "expected a JSON object, as in"),
    ('{"cluster": {"worker": {"a": "a:1"}}}', "cluster.worker with the numbers a: expected a list"),
    ('{"cluster": {"worker": {"0": "a:1", "5": "b:1"}}}', "cluster.worker with the numbers 0, 5: expected a list"),
    ('{"cluster": {"worker": ["a:1", "b:1"]}}', "task.type=None: expected the job of this process"),
    (json.dumps({**TASK, "task": {"type": "worker", "index": -1}}), "task.index=-1"),
    (json.dumps({**TASK, "task": {"type": "worker", "index": True}}), "task.index=True"),
    (json.dumps({**TASK, "task": {"type": "worker", "index": 2}}), "task.index=2: expected 0 to 1, since "),
    (json.dumps({**TASK, "task": {"type": "boss", "index": 0}}), "task.type='boss': expected one of chief, worker"),
    (json.dumps({**TASK, "cluster": {"boss": ["a:1"]}}), "cluster.boss: expected the jobs"),
    (json.dumps({**TASK, "cluster": {"ps": ["a:1"]}}), "a cluster of ps: expected a worker"),
    (json.dumps({**TASK, "cluster": {"chief": ["a:1"]}}), "task.type='worker': expected a job of the cluster, chief"),
    (json.dumps({**TASK, "cluster": {"chief": ["a:1"], "master": ["a:2"]}}), "a cluster with chief and master"),
    (json.dumps({**TASK, "cluster": {"chief": ["a:1", "a:2"]}}), "cluster.chief with 2 addresses: expected one"),
    (json.dumps({**TASK, "cluster": {"worker": ["a:1", "a"]}}), r"cluster.worker\[1\]='a': expected an address"),
    (json.dumps({**TASK, "cluster": {"worker": ["a:1", "a:0"]}}), r"cluster.worker\[1\]='a:0'"),
    (json.dumps({**TASK, "cluster": {"worker": ["a:1", 7]}}), r"cluster.worker\[1\]=7: expected an address"),
    (
        json.dumps({**TASK, "cluster": {"worker": ["a:1"], "ps": ["a:1"]}}),
        r"cluster.worker\[0\] and cluster.ps\[0\]='a:1': expected an address for each task",
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG_TF_CONFIG)
def test_what_is_wrong_in_tf_config_is_shown(text, message):
    with pytest.raises(ConfigError, match=f"^TF_CONFIG got .*(?:{message})"):
        read_launch_env({"TF_CONFIG": text})


def test_torchrun():
    found = read_launch_env(TORCHRUN)
    assert found.place == ClusterRank(1, 2, "localhost:29500", 1, 2)
    assert (found.source, found.variable) == ("RANK and WORLD_SIZE", "WORLD_SIZE")
    agent = {"TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    assert place({**TORCHRUN, **agent}) == ClusterRank(1, 2, "localhost:29501", 1, 2, "torchrun x")


def test_ranks_alone_say_no_address():
    assert place({"RANK": "0", "WORLD_SIZE": "2"}) == ClusterRank(0, 2)
    assert place({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "::1", "MASTER_PORT": "80"}).master == "[::1]:80"


def test_slurm():
    found = read_launch_env(SLURM)
    assert found.place == ClusterRank(4, 5, found.place.master, 0, 1, "slurm 4711.0")
    host, _, port = found.place.master.partition(":")
    assert (host, 15000 <= int(port) < 30000) == ("n07", True)
    # Another step has another port, and the tasks of one step the same.
    assert place(changed(SLURM, SLURM_STEP_ID="1")).master != found.place.master
    assert place(changed(SLURM, SLURM_PROCID="0", SLURM_NODEID="0")).master == found.place.master
    given = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "7"}
    assert place({**SLURM, **given}).master == "10.0.0.1:7"


def test_slurm_without_a_job_says_no_port():
    assert place(changed(SLURM, SLURM_JOB_ID=None)) == ClusterRank(4, 5, None, 0, 1)


def test_slurm_on_one_machine_meets_on_loopback():
    one = changed(SLURM, SLURM_STEP_NODELIST="n7", SLURM_STEP_TASKS_PER_NODE="5", SLURM_NODEID="0")
    assert place(one).master.startswith("127.0.0.1:")
    assert place(one).local_size == 5


@pytest.mark.parametrize(
    ("variables", "has_own_gpus"),
    [
        ({}, False),
        ({"SLURM_GPUS_PER_TASK": "1"}, True),
        ({"SLURM_TRES_PER_TASK": "gres/gpu:1"}, True),
        ({"SLURM_TRES_PER_TASK": "cpu=4"}, False),
        ({"SLURM_NTASKS_PER_GPU": "1"}, True),
        ({"SLURM_GPU_BIND": "single:1"}, True),
        ({"SLURM_GPU_BIND": "none"}, False),
    ],
)
def test_slurm_says_whether_each_task_has_gpus_of_its_own(variables, has_own_gpus):
    assert read_launch_env({**SLURM, **variables}).has_own_gpus == has_own_gpus


def test_a_launcher_says_whether_each_process_has_gpus_of_its_own():
    config = '{"cluster": {"worker": ["a:1", "a:2"]}, "task": {"type": "worker", "index": 1}}'
    for told, has_own_gpus in [({}, False), ({"SLURM_GPUS_PER_TASK": "1"}, False), ({"TPACK_OWN_GPUS": "1"}, True)]:
        assert read_launch_env({"TF_CONFIG": config, **told}).has_own_gpus == has_own_gpus
    ranked = {"RANK": "0", "WORLD_SIZE": "2", "TPACK_OWN_GPUS": "1"}
    assert read_launch_env(ranked).has_own_gpus


def test_open_mpi():
    found = place(OPEN_MPI)
    assert found == ClusterRank(1, 2, found.master, 1, 2, "mpi prterun-vm-10719@1")
    assert found.master.startswith("127.0.0.1:")


def test_horovodrun():
    told = {"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2", "HOROVOD_LOCAL_RANK": "1", "HOROVOD_LOCAL_SIZE": "2"}
    jobs = [{**told, "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.1", "HOROVOD_GLOO_RENDEZVOUS_PORT": port} for port in "12"]
    first, second = map(place, jobs)
    assert first == ClusterRank(1, 2, first.master, 1, 2, "mpi 10.0.0.1 1")
    assert first.master.startswith("127.0.0.1:")
    # Two jobs at a time meet apart.
    assert first.master != second.master
    assert place(changed(told, HOROVOD_SIZE="4")).master is None
    assert place(changed(told, HOROVOD_SIZE="4", MASTER_ADDR="node1", MASTER_PORT="9")).master == "node1:9"


def test_mpi_on_several_machines_has_to_be_told_where_the_first_is():
    several = changed(OPEN_MPI, OMPI_COMM_WORLD_SIZE="4")
    assert place(several).master is None
    assert place({**several, "MASTER_ADDR": "node1"}).master == place({**several, "MASTER_ADDR": "node1"}).master
    assert place(changed(MPICH, PMI_SIZE="4", MASTER_ADDR="node1")).master is None
    assert place(changed(MPICH, PMI_SIZE="4", MASTER_ADDR="node1", MASTER_PORT="9")).master == "node1:9"


class Parent:
    """A process above this one."""

    pid = 7

    def __init__(self, name):
        self._name = name

    def name(self):
        return self._name

    def create_time(self):
        return 1.5


@pytest.mark.parametrize(
    ("name", "token"), [("hydra_pmi_proxy", "mpi 7 1.5"), ("mpiexec.hydra", "mpi 7 1.5"), ("sh", "")]
)
def test_other_mpis_are_known_by_the_process_that_started_all(monkeypatch, name, token):
    monkeypatch.setattr(psutil.Process, "parents", lambda self: [Parent("bash"), Parent(name)])
    found = place(MPICH)
    assert (found.rank, found.size, found.local_rank, found.local_size, found.token) == (1, 2, 1, 2, token)
    assert (found.master is not None) == bool(token)


ALONE = [
    {},
    {"TF_CONFIG": ""},
    {"TF_CONFIG": "{}"},
    {"TF_CONFIG": '{"cluster": null, "task": null, "environment": "cloud"}'},
    # A login shell of salloc, and the script of sbatch.
    {"SLURM_NTASKS": "8", "SLURM_JOB_ID": "1"},
    {"SLURM_NTASKS": "8", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "1"},
]


@pytest.mark.parametrize("variables", ALONE, ids=str)
def test_nothing_is_found_where_nothing_is_said(variables):
    found = read_launch_env(variables)
    assert (found.place, found.size, found.incomplete) == (None, 1, "")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"WORLD_SIZE": "8"}, "WORLD_SIZE got '8' and RANK is missing"),
        ({"RANK": "3"}, "RANK got '3' and WORLD_SIZE is missing"),
    ],
)
def test_half_of_two_variables_is_told_of(variables, message):
    assert message in read_launch_env(variables).incomplete


WRONG_NUMBERS = [
    (TORCHRUN, {"WORLD_SIZE": "two"}, "WORLD_SIZE got 'two': expected an integer of at least 1"),
    (TORCHRUN, {"WORLD_SIZE": "0"}, "WORLD_SIZE got '0': .* at least 1"),
    (TORCHRUN, {"RANK": "2"}, "RANK got '2': .* from 0 to 1"),
    (TORCHRUN, {"RANK": "-1"}, "RANK got '-1'"),
    (TORCHRUN, {"LOCAL_RANK": "2"}, "LOCAL_RANK got '2': .* from 0 to 1"),
    (TORCHRUN, {"LOCAL_WORLD_SIZE": "3"}, "LOCAL_WORLD_SIZE got '3': .* from 1 to 2"),
    (TORCHRUN, {"MASTER_PORT": "http"}, "MASTER_PORT='host:http'"),
    (TORCHRUN, {"MASTER_ADDR": "a b"}, "MASTER_ADDR with MASTER_PORT='a b:29500'"),
    (SLURM, {"SLURM_STEP_NODELIST": "n[1-"}, r"SLURM_STEP_NODELIST got 'n\[1-': expected brackets"),
    (SLURM, {"SLURM_STEP_TASKS_PER_NODE": "2x2"}, r"SLURM_STEP_TASKS_PER_NODE got '2x2': expected .* 2\(x3\),1"),
    (SLURM, {"SLURM_STEP_TASKS_PER_NODE": "5", "SLURM_NODEID": "0"}, "'5': expected as many machines as .*, 3"),
    (SLURM, {"SLURM_NODEID": "3"}, "SLURM_NODEID got '3': .* from 0 to 2"),
    (OPEN_MPI, {"OMPI_COMM_WORLD_RANK": ""}, "OMPI_COMM_WORLD_RANK got ''"),
    (MPICH, {"PMI_SIZE": "1e3"}, "PMI_SIZE got '1e3'"),
]


@pytest.mark.parametrize(("variables", "changes", "message"), WRONG_NUMBERS)
def test_a_wrong_number_is_shown_with_its_variable(variables, changes, message):
    with pytest.raises(ConfigError, match=message):
        read_launch_env({**variables, **changes})


def test_the_first_launcher_in_order_counts():
    everything = {**SLURM, **TORCHRUN, **tf_config(cluster={"worker": ["a:1", "b:1"]})}
    assert read_launch_env(everything).source == "TF_CONFIG"
    assert read_launch_env({**SLURM, **TORCHRUN}).source == "RANK and WORLD_SIZE"
    same = {**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "4", "OMPI_COMM_WORLD_SIZE": "5"}
    assert "Slurm" in read_launch_env({**SLURM, **same}).source
    # A step of one task in which mpirun was started.
    inner = {**SLURM, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", "SLURM_STEP_TASKS_PER_NODE": "1", **OPEN_MPI}
    inner |= {"SLURM_STEP_NODELIST": "n1", "SLURM_NODEID": "0"}
    assert "Open MPI" in read_launch_env(inner).source


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({**TORCHRUN, **tf_config()}, "worker 1, process 2 of 4, and RANK and WORLD_SIZE got 1 of 2"),
        ({**TORCHRUN, **tf_config(), "WORLD_SIZE": "4"}, "process 2 of 4, and RANK and WORLD_SIZE got 1 of 4"),
        ({**SLURM, **OPEN_MPI}, "Slurm.* process 4 of 5, and Open MPI.* 1 of 2.* env -u SLURM_STEP_NUM_TASKS"),
        ({**OPEN_MPI, **MPICH, "PMI_RANK": "0"}, "Open MPI.* 1 of 2, and an MPI.* 0 of 2"),
    ],
)
def test_launchers_that_contradict_each_other_are_refused(variables, message):
    with pytest.raises(ConfigError, match=message):
        read_launch_env(variables)


@pytest.mark.parametrize("size", ["4", "5"])
def test_tf_config_and_ranks_may_say_the_same(size):
    ranks = {"RANK": "2", "WORLD_SIZE": size}
    assert read_launch_env({**tf_config(), **ranks}).source == "TF_CONFIG"
    evaluator = tf_config(task={"type": "evaluator", "index": 0})
    assert read_launch_env({**evaluator, "RANK": "4", "WORLD_SIZE": "5"}).place.job == "evaluator"


def test_the_environment_is_not_changed():
    before = dict(os.environ)
    read_launch_env({**SLURM, **TORCHRUN})
    assert dict(os.environ) == before


def test_an_attempt_of_the_launcher_has_a_name_of_its_own():
    launched = {"RANK": "0", "WORLD_SIZE": "2", "TPACK_LAUNCH_ID": "a1", "TPACK_RESTART_COUNT": "3"}
    assert place(launched).token == "tpack launch a1, attempt 3"
    assert place({**launched, "TORCHELASTIC_RUN_ID": "x"}).token == "torchrun x"
    assert place({"RANK": "0", "WORLD_SIZE": "2"}).token == ""


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((2, 2), ConfigError, "rank=2: expected an integer from 0 to 1"),
        ((0, 0), ConfigError, "size=0"),
        ((0, 2, "a"), ConfigError, "ClusterRank got master='a': expected an address"),
        ((0, 2, None, 2), ConfigError, "local_rank=2"),
        ((0, 2, None, 1, 3), ConfigError, "local_size=3"),
        (("0", 2), WrongTypeError, "rank='0': expected an integer"),
    ],
)
def test_a_rank_that_cannot_be_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        ClusterRank(*arguments)


CLUSTER = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'
SEVERAL = [
    {"TF_CONFIG": CLUSTER},
    {"TF_CONFIG": '{"cluster": {"chief": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps", "index": 0}}'},
    {"TF_CONFIG": '{"cluster": {"chief": ["a:1"]}, "task": {"type": "evaluator", "index": 0}}'},
    {"RANK": "0", "WORLD_SIZE": "2"},
    {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8"},
    {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
    {"PMI_RANK": "1", "PMI_SIZE": "2"},
]
ALONE_PROCESSES = [
    {},
    {"TF_CONFIG": '{"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 0}}'},
    {"RANK": "0", "WORLD_SIZE": "1"},
    {"WORLD_SIZE": "8"},
    {"SLURM_NTASKS": "8", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"},
]


@pytest.fixture
def launched(monkeypatch):
    """Set what a launcher sets, and nothing of another one."""

    def launch(variables):
        for name in {name for case in (*SEVERAL, *ALONE_PROCESSES) for name in case}:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return launch


@pytest.mark.parametrize("variables", SEVERAL, ids=str)
def test_one_of_several_processes_does_not_train_alone(launched, variables):
    launched(variables)
    name = list(variables)[-1]
    with pytest.raises(ConfigError, match=rf"It trains on the devices of .*{name} says .*env -u {name} "):
        check_only_process("It")


def test_all_that_says_so_is_named(launched):
    launched({"TF_CONFIG": CLUSTER, "RANK": "0", "WORLD_SIZE": "2", "PMI_RANK": "3", "PMI_SIZE": "4"})
    with pytest.raises(ConfigError, match=r"TF_CONFIG says .* \(env -u TF_CONFIG -u WORLD_SIZE -u PMI_SIZE python"):
        check_only_process("It")


def test_a_script_that_exchanges_gradients_itself_may_train(launched, monkeypatch):
    launched({"RANK": "0", "WORLD_SIZE": "2"})
    monkeypatch.setattr(launch_env, "_exchanging", set())
    launch_env.note_own_exchange()
    assert check_only_process("It") is None
    launch_env.note_own_exchange(False)
    with pytest.raises(ConfigError, match="It trains on the devices of"):
        check_only_process("It")


@pytest.mark.parametrize("variables", ALONE_PROCESSES, ids=str)
def test_a_single_process_may_train(launched, variables):
    launched(variables)
    assert check_only_process("It") is None


def test_a_variable_that_cannot_be_read_is_an_error(launched):
    launched({"TF_CONFIG": "{"})
    with pytest.raises(ConfigError, match="TF_CONFIG got .*: expected JSON"):
        check_only_process("It")
