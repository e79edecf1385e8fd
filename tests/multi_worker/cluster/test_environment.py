"""What launchers say by the environment; some of it was taken from the real ones."""

import json
import os

import psutil
import pytest

from tpack.errors import ConfigError
from tpack.multi_worker.cluster.cluster_spec import ClusterRank, ClusterTask
from tpack.multi_worker.cluster.environment import find_in_environment

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
    return find_in_environment(variables).place


def test_tf_config_names_a_task():
    found = find_in_environment(tf_config())
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
    ("{", "expected JSON"),
    ("[1]", "expected JSON"),
    ('{"cluster": 5}', "expected JSON"),
    ('{"cluster": {"worker": 5}}', "expected JSON"),
    ('{"task": "worker"}', "expected JSON"),
    ('{"cluster": {"worker": {"a": "a:1"}}}', "expected JSON"),
    ('{"cluster": {"worker": {"0": "a:1", "5": "b:1"}}}', r"cluster.worker has the numbers \[0, 5\]"),
    ('{"cluster": {"worker": ["a:1", "b:1"]}}', "its task's type is None and its index 0"),
    (json.dumps({**TASK, "task": {"type": "worker", "index": -1}}), "its index -1"),
    (json.dumps({**TASK, "task": {"type": "worker", "index": True}}), "its index True"),
    (json.dumps({**TASK, "task": {"type": "worker", "index": 2}}), "index is 2: expected 0 to 1, since there are 2"),
    (json.dumps({**TASK, "task": {"type": "boss", "index": 0}}), "type is 'boss': expected one of chief, worker"),
    (json.dumps({**TASK, "cluster": {"boss": ["a:1"]}}), "cluster.boss is no job"),
    (json.dumps({**TASK, "cluster": {"ps": ["a:1"]}}), "no worker, only ps"),
    (json.dumps({**TASK, "cluster": {"chief": ["a:1"]}}), "type is 'worker', and the cluster has only chief"),
    (json.dumps({**TASK, "cluster": {"chief": ["a:1"], "master": ["a:2"]}}), "a chief and a master"),
    (json.dumps({**TASK, "cluster": {"chief": ["a:1", "a:2"]}}), "cluster.chief has 2 addresses: expected one"),
    (json.dumps({**TASK, "cluster": {"worker": ["a:1", "a"]}}), r"cluster.worker\[1\] is 'a': expected an address"),
    (json.dumps({**TASK, "cluster": {"worker": ["a:1", "a:0"]}}), r"cluster.worker\[1\] is 'a:0'"),
    (json.dumps({**TASK, "cluster": {"worker": ["a:1", 7]}}), "7: expected text"),
    (
        json.dumps({**TASK, "cluster": {"worker": ["a:1"], "ps": ["a:1"]}}),
        r"cluster.worker\[0\] and cluster.ps\[0\] are",
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG_TF_CONFIG)
def test_what_is_wrong_in_tf_config_is_shown(text, message):
    with pytest.raises(ConfigError, match=f"TF_CONFIG cannot be read: .*{message}"):
        find_in_environment({"TF_CONFIG": text})


def test_torchrun():
    found = find_in_environment(TORCHRUN)
    assert found.place == ClusterRank(1, 2, "localhost:29500", 1, 2)
    assert (found.source, found.variable) == ("RANK and WORLD_SIZE", "WORLD_SIZE")
    agent = {"TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    assert place({**TORCHRUN, **agent}) == ClusterRank(1, 2, "localhost:29501", 1, 2, "torchrun x")


def test_ranks_alone_say_no_address():
    assert place({"RANK": "0", "WORLD_SIZE": "2"}) == ClusterRank(0, 2)
    assert place({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "::1", "MASTER_PORT": "80"}).master == "[::1]:80"


def test_slurm():
    found = find_in_environment(SLURM)
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
    assert find_in_environment({**SLURM, **variables}).has_own_gpus == has_own_gpus


def test_a_launcher_says_whether_each_process_has_gpus_of_its_own():
    config = '{"cluster": {"worker": ["a:1", "a:2"]}, "task": {"type": "worker", "index": 1}}'
    for told, has_own_gpus in [({}, False), ({"SLURM_GPUS_PER_TASK": "1"}, False), ({"TPACK_OWN_GPUS": "1"}, True)]:
        assert find_in_environment({"TF_CONFIG": config, **told}).has_own_gpus == has_own_gpus
    ranked = {"RANK": "0", "WORLD_SIZE": "2", "TPACK_OWN_GPUS": "1"}
    assert find_in_environment(ranked).has_own_gpus


def test_open_mpi():
    found = place(OPEN_MPI)
    assert found == ClusterRank(1, 2, found.master, 1, 2, "mpi prterun-vm-10719@1")
    assert found.master.startswith("127.0.0.1:")


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
    found = find_in_environment(variables)
    assert (found.place, found.size, found.incomplete) == (None, 1, "")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"WORLD_SIZE": "8"}, "WORLD_SIZE is '8' and RANK is missing"),
        ({"RANK": "3"}, "RANK is '3' and WORLD_SIZE is missing"),
    ],
)
def test_half_of_two_variables_is_told_of(variables, message):
    assert message in find_in_environment(variables).incomplete


WRONG_NUMBERS = [
    (TORCHRUN, {"WORLD_SIZE": "two"}, "WORLD_SIZE is 'two': expected a number of processes"),
    (TORCHRUN, {"WORLD_SIZE": "0"}, "WORLD_SIZE is '0': .* at least 1"),
    (TORCHRUN, {"RANK": "2"}, "RANK is '2': .* from 0 to 1"),
    (TORCHRUN, {"RANK": "-1"}, "RANK is '-1'"),
    (TORCHRUN, {"LOCAL_RANK": "2"}, "LOCAL_RANK is '2': .* from 0 to 1"),
    (TORCHRUN, {"LOCAL_WORLD_SIZE": "3"}, "LOCAL_WORLD_SIZE is '3': .* from 1 to 2"),
    (TORCHRUN, {"MASTER_PORT": "http"}, "MASTER_PORT.* 'a:http'"),
    (TORCHRUN, {"MASTER_ADDR": "a b"}, "MASTER_ADDR with MASTER_PORT is 'a b:29500'"),
    (SLURM, {"SLURM_STEP_NODELIST": "n[1-"}, r"SLURM_STEP_NODELIST is 'n\[1-': expected brackets"),
    (SLURM, {"SLURM_STEP_TASKS_PER_NODE": "2x2"}, r"SLURM_STEP_TASKS_PER_NODE is '2x2': expected .* 2\(x3\),1"),
    (SLURM, {"SLURM_STEP_TASKS_PER_NODE": "5", "SLURM_NODEID": "0"}, "'5' and SLURM_STEP_NODELIST names 3 machines"),
    (SLURM, {"SLURM_NODEID": "3"}, "SLURM_NODEID is '3': .* from 0 to 2"),
    (OPEN_MPI, {"OMPI_COMM_WORLD_RANK": ""}, "OMPI_COMM_WORLD_RANK is ''"),
    (MPICH, {"PMI_SIZE": "1e3"}, "PMI_SIZE is '1e3'"),
]


@pytest.mark.parametrize(("variables", "changes", "message"), WRONG_NUMBERS)
def test_a_wrong_number_is_shown_with_its_variable(variables, changes, message):
    with pytest.raises(ConfigError, match=message):
        find_in_environment({**variables, **changes})


def test_the_first_launcher_in_order_counts():
    everything = {**SLURM, **TORCHRUN, **tf_config(cluster={"worker": ["a:1", "b:1"]})}
    assert find_in_environment(everything).source == "TF_CONFIG"
    assert find_in_environment({**SLURM, **TORCHRUN}).source == "RANK and WORLD_SIZE"
    same = {**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "4", "OMPI_COMM_WORLD_SIZE": "5"}
    assert "Slurm" in find_in_environment({**SLURM, **same}).source
    # A step of one task in which mpirun was started.
    inner = {**SLURM, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", "SLURM_STEP_TASKS_PER_NODE": "1", **OPEN_MPI}
    inner |= {"SLURM_STEP_NODELIST": "n1", "SLURM_NODEID": "0"}
    assert "Open MPI" in find_in_environment(inner).source


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({**TORCHRUN, **tf_config()}, "worker 1, process 2 of 4, and RANK and WORLD_SIZE say 1 of 2"),
        ({**TORCHRUN, **tf_config(), "WORLD_SIZE": "4"}, "process 2 of 4, and RANK and WORLD_SIZE say 1 of 4"),
        ({**SLURM, **OPEN_MPI}, "Slurm.* process 4 of 5, and Open MPI.* 1 of 2.* env -u SLURM_STEP_NUM_TASKS"),
        ({**OPEN_MPI, **MPICH, "PMI_RANK": "0"}, "Open MPI.* 1 of 2, and an MPI.* 0 of 2"),
    ],
)
def test_launchers_that_contradict_each_other_are_refused(variables, message):
    with pytest.raises(ConfigError, match=message):
        find_in_environment(variables)


@pytest.mark.parametrize("size", ["4", "5"])
def test_tf_config_and_ranks_may_say_the_same(size):
    ranks = {"RANK": "2", "WORLD_SIZE": size}
    assert find_in_environment({**tf_config(), **ranks}).source == "TF_CONFIG"
    evaluator = tf_config(task={"type": "evaluator", "index": 0})
    assert find_in_environment({**evaluator, "RANK": "4", "WORLD_SIZE": "5"}).place.job == "evaluator"


def test_the_environment_is_not_changed():
    before = dict(os.environ)
    find_in_environment({**SLURM, **TORCHRUN})
    assert dict(os.environ) == before


def test_an_attempt_of_the_launcher_has_a_name_of_its_own():
    launched = {"RANK": "0", "WORLD_SIZE": "2", "TPACK_LAUNCH_ID": "a1", "TPACK_RESTART_COUNT": "3"}
    assert place(launched).token == "tpack launch a1, attempt 3"
    assert place({**launched, "TORCHELASTIC_RUN_ID": "x"}).token == "torchrun x"
    assert place({"RANK": "0", "WORLD_SIZE": "2"}).token == ""
