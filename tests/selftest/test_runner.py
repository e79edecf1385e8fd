"""The runner of the selftest: checks in a child process, and each planted fault is found and named."""

import json
from dataclasses import replace

import pytest

from tests.helpers.selftest_faults import DEVICE, serve_faulty_devices, serve_hanging_copies
from tpack.reduction.names import ALGORITHMS
from tpack.selftest import runner
from tpack.selftest.runner import (
    FIRST,
    NOT_RUN,
    REDUCERS,
    RIGHT,
    SKIPPED,
    TRAINERS,
    WRONG,
    Machine,
    Outcome,
    all_is_right,
    answer_to,
    checks_of,
    counts_of,
    run_selftest,
)
from tpack.selftest.training import TRAINERS as MADE_TRAINERS

CPUS = Machine("CPU", tuple(f"/device:CPU:{k}" for k in range(4)))


def test_names_of_reducers_and_trainers_are_those_that_there_are():
    assert REDUCERS == ALGORITHMS
    assert tuple(MADE_TRAINERS) == TRAINERS
    names = [check.name for check in checks_of(CPUS)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("count", "counts"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (8, [1, 2, 4, 8])])
def test_images_are_counted_on_powers_of_two_and_on_all(count, counts):
    assert counts_of(count) == counts


def test_wrong_devices_a_lost_device_and_a_fallback_are_named():
    shown = []
    server = "trainer: parameter server on the CPU"
    only = ["arithmetic", "trainer: replicated", server, "reducer: round_robin"]
    options = {"only": only, "check_secs": 300.0, "report": lambda *told: shown.append(told)}
    machine, outcomes = run_selftest(4, entry=serve_faulty_devices, **options)
    found = {each.name: each for each in outcomes}
    assert machine == CPUS
    assert found["devices"].result == RIGHT
    assert [(each.name, each.result) for each in outcomes[1:]] == [(name, WRONG) for name in only]
    assert f"{DEVICE} computes wrong: its matrix product is off by up to 1 in 5 of 5" in found["arithmetic"].text
    assert "CUDA_VISIBLE_DEVICES" in found["arithmetic"].advice
    assert f"the part of {DEVICE} is missing" in found["reducer: round_robin"].text
    assert f"nothing of the tower for {DEVICE} computes: its gradients are lost" in found["trainer: replicated"].text
    assert f"the tower for {DEVICE} computes on /device:CPU:0, silently" in found[server].text
    assert [(outcome.name, number, total) for outcome, number, total in shown] == [
        (name, number, 5) for number, name in enumerate(["devices", *only], 1)
    ]
    assert not all_is_right(outcomes)


def test_a_hang_is_named_and_the_next_check_runs_and_its_crash_is_named(monkeypatch):
    def few_checks(machine):
        checks = {check.name: check for check in checks_of(machine)}
        return [replace(checks["copies"], limit_secs=2.0), checks["arithmetic"]]

    monkeypatch.setattr(runner, "checks_of", few_checks)
    _, outcomes = run_selftest(4, entry=serve_hanging_copies)
    _, copies, arithmetic = outcomes
    assert (copies.result, arithmetic.result) == (WRONG, WRONG)
    assert copies.text.startswith("it hangs: no end within 2 s, in check_copies (tpack/selftest/devices.py:")
    assert "NCCL_P2P_DISABLE" in copies.advice
    assert "selftest_faults.py" in copies.details
    assert arithmetic.text == "its process was killed by SIGKILL"
    assert "dmesg | grep -i oom" in arithmetic.advice


def test_nothing_runs_where_tensorflow_cannot_be_loaded(monkeypatch, tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise ImportError('libcudart.so is missing')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    machine, outcomes = run_selftest(4)
    assert machine is None
    assert [(each.name, each.result) for each in outcomes] == [("devices", WRONG)]
    assert "libcudart.so is missing" in outcomes[0].text


def test_checks_after_the_limit_do_not_run_and_nothing_is_said_to_be_right(monkeypatch):
    class Answering:
        def __init__(self, entry):
            pass

        def run(self, check, shared, limit_secs):
            assert check is FIRST
            return Outcome(check.name, RIGHT, "", figures={"kind": "CPU", "devices": CPUS.devices})

        def close(self):
            pass

    monkeypatch.setattr(runner, "_Worker", Answering)
    _, outcomes = run_selftest(4, limit_secs=0)
    assert {each.result for each in outcomes[1:]} == {NOT_RUN}
    assert not all_is_right(outcomes)
    assert not all_is_right([])
    assert all_is_right([Outcome("a", RIGHT, ""), Outcome("b", SKIPPED, "")])


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("libdevice not found at ./libdevice.10.bc", "XLA_FLAGS=--xla_gpu_cuda_data_dir"),
        ("NCCL: unhandled system error", "NCCL_DEBUG=INFO"),
        ("ResourceExhaustedError: OOM", "nvidia-smi"),
        ("something else", "Report it"),
    ],
)
def test_exceptions_of_checks_have_advice(monkeypatch, text, advice):
    def fail(machine):
        raise RuntimeError(text)

    monkeypatch.setattr("tpack.selftest.devices.check_memory", fail)
    machine = {"kind": "CPU", "devices": ["/device:CPU:0"]}
    answer = answer_to({"module": "devices", "function": "check_memory", "arguments": {"machine": machine}})
    assert answer["result"] == WRONG
    assert text in answer["text"]
    assert advice in answer["advice"]
    assert "in fail" in answer["details"]
    json.dumps(answer)
