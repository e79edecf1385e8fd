"""Environment variables that are changed for a while, and processes that are not alone."""

import os

import pytest

from tpack.errors import ConfigError
from tpack.utils.env import change_env, check_only_process


@pytest.mark.parametrize("before", [None, "old"])
@pytest.mark.parametrize("during", [None, "new"])
def test_variable_is_changed_and_brought_back(monkeypatch, before, during):
    monkeypatch.delenv("TPACK_TEST", raising=False)
    if before is not None:
        monkeypatch.setenv("TPACK_TEST", before)
    with change_env("TPACK_TEST", during):
        assert os.environ.get("TPACK_TEST") == during
    assert os.environ.get("TPACK_TEST") == before


def test_variable_is_brought_back_after_an_exception(monkeypatch):
    monkeypatch.setenv("TPACK_TEST", "old")
    with pytest.raises(KeyError), change_env("TPACK_TEST", "new"):
        raise KeyError
    assert os.environ["TPACK_TEST"] == "old"


CLUSTER = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'

SEVERAL = [
    {"TF_CONFIG": CLUSTER},
    {"TF_CONFIG": '{"cluster": {"chief": ["a:1"], "ps": ["b:1"]}}'},
    {"TF_CONFIG": '{"cluster": {"chief": ["a:1"]}, "task": {"type": "evaluator", "index": 0}}'},
    {"TF_CONFIG": '{"cluster": {"worker": {"0": "a:1", "5": "b:1"}}}'},
    {"RANK": "0", "WORLD_SIZE": "2"},
    {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8"},
    {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
    {"PMI_RANK": "1", "PMI_SIZE": "2"},
]

ALONE = [
    {},
    {"TF_CONFIG": ""},
    {"TF_CONFIG": "{}"},
    {"TF_CONFIG": '{"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 0}}'},
    {"TF_CONFIG": '{"cluster": null, "task": null, "environment": "cloud"}'},
    {"RANK": "0", "WORLD_SIZE": "1"},
    {"WORLD_SIZE": "8"},
    # A login shell of salloc, and the script of sbatch.
    {"SLURM_NTASKS": "8", "SLURM_JOB_ID": "1"},
    {"SLURM_NTASKS": "8", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "1"},
    {"SLURM_NTASKS": "8", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"},
]

UNREADABLE = [
    ({"TF_CONFIG": "{"}, "TF_CONFIG cannot be read: wanted JSON"),
    ({"TF_CONFIG": "[1]"}, "TF_CONFIG cannot be read: wanted JSON"),
    ({"TF_CONFIG": '{"cluster": 5}'}, "TF_CONFIG cannot be read: wanted JSON"),
    ({"TF_CONFIG": '{"cluster": {"worker": 5}}'}, "TF_CONFIG cannot be read: wanted JSON"),
    ({"TF_CONFIG": '{"task": "worker"}'}, "TF_CONFIG cannot be read: wanted JSON"),
    ({"RANK": "0", "WORLD_SIZE": "two"}, "WORLD_SIZE is 'two': wanted a number of processes"),
]


@pytest.fixture
def launched(monkeypatch):
    """Set what a launcher sets, and nothing of another one."""

    def launch(variables):
        for name in {name for case in (*SEVERAL, *ALONE) for name in case}:
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


@pytest.mark.parametrize("variables", ALONE, ids=str)
def test_a_single_process_may_train(launched, variables):
    launched(variables)
    assert check_only_process("It") is None


@pytest.mark.parametrize(("variables", "message"), UNREADABLE, ids=str)
def test_a_variable_that_cannot_be_read_is_an_error(launched, variables, message):
    launched(variables)
    with pytest.raises(ConfigError, match=message):
        check_only_process("It")
