"""The checks of ``tpack selftest``, and how they run: one after the other in a child process, each with a time limit.

This process never loads TensorFlow, so that neither a hang nor a crash of a check ends the report. The child answers
each request, a line of JSON, with another one. A check that does not answer in time is named with the Python line where
it hangs, its process is killed, and the next check gets a new one.

A check is a function of the modules beside this one. It returns a `Finding`, or raises `Wrong` or `Skipped`; every
other exception is wrong as well.
"""

import contextlib
import faulthandler
import importlib
import itertools
import json
import os
import re
import select
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tpack.utils.child_process import Child, cause_of_death, spawn_child

RIGHT, WRONG, SKIPPED, NOT_RUN = "right", "wrong", "skipped", "not run"

TRAINERS = (
    "replicated",
    "hierarchical",
    "parameter server on the CPU",
    "parameter server on the devices",
    "sharded optimizer",
    "accumulated gradients",
    "local steps",
    "asynchronous",
)
# A copy of the names in `tpack.reduction`, which needs TensorFlow; a test compares them.
REDUCERS = ("one_device", "round_robin", "hierarchical", "rechd", "collective", "nccl", "xring", "pscpu", "psgpu")
PRECISIONS = ("bfloat16", "float16")

_START_SECS, _TRAINING_SECS, _SPEED_SECS = 240.0, 60.0, 120.0
# The child writes where it hangs before this process kills it.
_LAST_WORDS_SECS = 5.0
_LINE_OF_TPACK = re.compile(
    r'File "[^"]*?(tpack/(?!selftest/runner|utils/child|utils/python)[^"]+)", line (\d+) in (\w+)'
)


class Wrong(Exception):
    """Raised by a check that found something wrong.

    Args:
        text: the finding, in words.
        advice: what to set or to try.
        figures: the numbers, as JSON can hold them.
    """

    def __init__(self, text: str, advice: str = "", figures: Mapping[str, Any] | None = None) -> None:
        super().__init__(text)
        self.advice = advice
        self.figures = dict(figures or {})


class Skipped(Exception):
    """Raised by a check that these devices cannot serve, with the reason."""


@dataclass(frozen=True)
class Finding:
    """The result of a check that found nothing wrong.

    Attributes:
        text: the result, in a few words.
        figures: the numbers, as JSON can hold them.
        advice: what would make it faster.
    """

    text: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    advice: str = ""


@dataclass(frozen=True)
class Machine:
    """The devices that are tested.

    Attributes:
        kind: ``"GPU"`` or ``"CPU"``.
        devices: their canonical names; logical ones on a machine without GPUs.
    """

    kind: str
    devices: tuple[str, ...]

    @property
    def has_gpus(self) -> bool:
        """Whether the devices are GPUs, each with a memory of its own."""
        return self.kind == "GPU"


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: its name in the report.
        proves: the statement that it proves.
        module: the module of this package that has its function.
        function: the name of the function, which takes a `Machine`.
        arguments: keyword arguments of the function, as JSON can hold them.
        limit_secs: its time limit.
        hang_advice: what to set or to try if it hangs.
    """

    name: str
    proves: str
    module: str
    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    limit_secs: float = _TRAINING_SECS
    hang_advice: str = "Report it with this page."


@dataclass(frozen=True)
class Outcome:
    """The result of one check.

    Attributes:
        name: the check.
        result: ``"right"``, ``"wrong"``, ``"skipped"`` if these devices cannot serve it, or ``"not run"``.
        text: the finding or the reason, in words.
        proves: the statement that the check proves.
        secs: the seconds that it took.
        figures: its numbers.
        advice: what to set or to try.
        details: the traceback of an exception, or the last lines of the log.
    """

    name: str
    result: str
    text: str
    proves: str = ""
    secs: float = 0.0
    figures: Mapping[str, Any] = field(default_factory=dict)
    advice: str = ""
    details: str = ""


FIRST = Check(
    "devices",
    "TensorFlow sees every GPU that the driver has",
    "devices",
    "find_devices",
    limit_secs=_START_SECS,
    hang_advice="The driver or a GPU hangs: look at nvidia-smi and at the kernel's log (dmesg | grep -i nvrm).",
)
"""The check that finds the machine; without it no other runs."""

_COPY_ADVICE = (
    "Copies between GPUs hang: set NCCL_P2P_DISABLE=1 and try again; disable ACS and the IOMMU in the firmware, "
    "as NVIDIA advises for direct copies."
)
_NCCL_ADVICE = "NCCL hangs: set NCCL_DEBUG=INFO, then NCCL_P2P_DISABLE=1; train with mode='round_robin' meanwhile."


def checks_of(machine: Machine) -> list[Check]:
    """Return the checks of a machine after `FIRST`, in the order in which they run."""
    one_tower = "ends with the weights of one tower, replicas equal bit by bit, nothing silently on another device"
    checks = [
        Check("memory", "a session takes the memory that it needs, not all of it", "devices", "check_memory"),
        Check("arithmetic", "each device computes what numpy does, where it was placed", "devices", "check_arithmetic"),
        Check(
            "copies", "copies between each two devices are right", "devices", "check_copies", hang_advice=_COPY_ADVICE
        ),
        Check("host copies", "copies between host and device are right", "devices", "check_host_copies"),
    ]
    checks += [
        Check(
            f"trainer: {name}", f"it {one_tower}", "training", "check_trainer", {"name": name}, hang_advice=_COPY_ADVICE
        )
        for name in TRAINERS
    ]
    checks += [
        Check(
            f"reducer: {name}",
            f"its sums are right on each device, and a training with it {one_tower}",
            "training",
            "check_reducer",
            {"name": name},
            hang_advice=_NCCL_ADVICE if name in ("nccl", "collective") else _COPY_ADVICE,
        )
        for name in REDUCERS
    ]
    checks += [
        Check(
            f"precision: {name}",
            "the cost begins as in float32, and falls",
            "training",
            "check_precision",
            {"name": name},
        )
        for name in PRECISIONS
    ]
    checks += [
        Check("compiled", "a step that XLA compiles ends with the same weights", "training", "check_compiled"),
        Check("checkpoint", "a resumed training ends with the same bits", "training", "check_checkpoint"),
        Check(
            "all-reduce",
            "all-reduces are right, at a share of the best",
            "speed",
            "check_all_reduce",
            limit_secs=_SPEED_SECS,
            hang_advice=_NCCL_ADVICE,
        ),
    ]
    return checks + [
        Check(_images_name(count), "training of a ResNet runs", "speed", "check_images", {"count": count}, _SPEED_SECS)
        for count in counts_of(len(machine.devices))
    ]


def names_of_checks() -> list[str]:
    """Return the names of checks, of those that count images the one of a single device."""
    return [FIRST.name, *(check.name for check in checks_of(Machine("CPU", ("",))))]


def _images_name(count: int) -> str:
    return f"images on {count} device{'s' if count > 1 else ''}"


def counts_of(num_devices: int) -> list[int]:
    """Return 1, 2, 4 and so on, and the number of devices itself."""
    powers = [1 << n for n in range(num_devices.bit_length()) if 1 << n < num_devices]
    return [*powers, num_devices]


def run_selftest(
    num_devices: int | None = None,
    *,
    only: Sequence[str] = (),
    limit_secs: float = 300.0,
    check_secs: float | None = None,
    entry: Callable[..., int] | None = None,
    report: Callable[[Outcome, int, int], None] | None = None,
) -> tuple[Machine | None, list[Outcome]]:
    """Find the devices, run the checks, and return both.

    Args:
        num_devices: the number of GPUs, or of logical CPU devices (4) where there is none; None for all GPUs.
        only: beginnings of names of checks; empty for all. ``devices`` always runs.
        limit_secs: the seconds after which no other check starts.
        check_secs: the time limit of each check; None for its own.
        entry: the function that a child process runs, at the top of a module; by default `serve`.
        report: called after each check with its outcome, its number, and the number of checks; 0 while unknown.
    """
    end = time.monotonic() + limit_secs
    outcomes: list[Outcome] = []
    worker = _Worker(entry or serve)
    try:
        first = worker.run(FIRST, {"num_devices": num_devices}, check_secs or FIRST.limit_secs)
        outcomes.append(first)
        machine = _machine_of(first)
        checks = [] if machine is None else checks_of(machine)
        checks = [check for check in checks if not only or check.name.startswith(tuple(only))]
        for number, check in enumerate([FIRST, *checks], 1):
            if number > 1 and machine is not None:
                outcomes.append(_run_in_time(worker, check, machine, end, check_secs))
            if report is not None:
                report(outcomes[-1], number, 1 + len(checks))
    finally:
        worker.close()
    return machine, outcomes


def _machine_of(first: Outcome) -> Machine | None:
    if not first.figures:
        return None
    return Machine(first.figures["kind"], tuple(first.figures["devices"]))


def _run_in_time(worker: "_Worker", check: Check, machine: Machine, end: float, check_secs: float | None) -> Outcome:
    if time.monotonic() >= end:
        return Outcome(check.name, NOT_RUN, "the time was over", check.proves, advice="Allow more by --limit.")
    return worker.run(check, {"machine": asdict(machine)}, check_secs or check.limit_secs)


class _Worker:
    """The child process, started when a check needs it."""

    def __init__(self, entry: Callable[..., int]) -> None:
        self._entry = entry
        self._child: Child | None = None
        self._closing = contextlib.ExitStack()
        self._received = b""
        self._has_ended = False

    def run(self, check: Check, shared: Mapping[str, Any], limit_secs: float) -> Outcome:
        """Run a check in the child, and return its outcome."""
        start = time.monotonic()
        answer = self._start() if self._child is None else None
        if answer is None:
            request = {"module": check.module, "function": check.function, "limit_secs": limit_secs}
            self._send({**request, "arguments": {**shared, **check.arguments}})
            answer = self._receive(limit_secs + _LAST_WORDS_SECS) or self._failure(check, limit_secs)
        return Outcome(check.name, proves=check.proves, secs=time.monotonic() - start, **answer)

    def _start(self) -> dict[str, Any] | None:
        """Start a child, with a pipe each way and a file for what it and its libraries print.

        Returns:
            None, or the answer for a check if it cannot load TensorFlow.
        """
        log, self._log = tempfile.mkstemp(prefix="tpack-selftest")
        os.close(log)
        self._closing.callback(os.remove, self._log)
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        for descriptor in (self._requests, self._answers):
            self._closing.callback(os.close, descriptor)
        arguments = {"requests": requests, "answers": answers, "log": self._log}
        self._child = spawn_child(self._entry, arguments, name="tpack-selftest", descriptors=(requests, answers))
        os.close(requests)
        os.close(answers)
        self._received, self._has_ended = b"", False
        answer = self._receive(_START_SECS + _LAST_WORDS_SECS) or self._failure(FIRST, _START_SECS)
        if answer["result"] == RIGHT:
            return None
        self.close()
        return answer

    def _send(self, request: Mapping[str, Any]) -> None:
        # One that died is found when its answer is read.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._requests, json.dumps(request).encode() + b"\n")

    def _receive(self, timeout_secs: float) -> dict[str, Any] | None:
        """Return the next answer; None if the child died or the time is over."""
        end = time.monotonic() + timeout_secs
        while b"\n" not in self._received:
            left = max(end - time.monotonic(), 0)
            if not select.select([self._answers], [], [], left)[0]:
                return None
            part = os.read(self._answers, 1 << 16)
            if not part:
                self._has_ended = True
                return None
            self._received += part
        line, _, self._received = self._received.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _failure(self, check: Check, limit_secs: float) -> dict[str, Any]:
        """End the child that gave no answer, and return the outcome of its check."""
        wait_secs = _LAST_WORDS_SECS if self._has_ended else 0.0
        code = None if self._child is None else self._child.exit_code(wait_secs)
        log = self._read_log()
        self.close()
        if code is not None:
            advice = _OF_MEMORY if code == -signal.SIGKILL else "Report it with this page."
            text = f"its process {cause_of_death(code)}"
            return {"result": WRONG, "text": text, "advice": advice, "details": _tail(log)}
        # The main thread is the last one.
        where = _LINE_OF_TPACK.search(log[log.rfind("hread 0x") :])
        place = f", in {where[3]} ({where[1]}:{where[2]})" if where else ""
        text = f"it hangs: no end within {limit_secs:g} s{place}"
        return {"result": WRONG, "text": text, "advice": check.hang_advice, "details": _tail(log)}

    def _read_log(self) -> str:
        with open(self._log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.signal(signal.SIGKILL)
            self._child.end()
            self._child = None
        self._closing.close()


def _tail(log: str, lines: int = 40) -> str:
    return "\n".join(log.rstrip().splitlines()[-lines:])


def serve(requests: int, answers: int, log: str) -> int:
    """Run the checks that a pipe asks for, in a child process, until the pipe is closed; first load TensorFlow.

    Args:
        requests: the descriptor of the pipe with requests.
        answers: the descriptor of the pipe for answers.
        log: the file for all that this process prints.
    """
    start = {"module": "devices", "function": "load_tensorflow", "limit_secs": _START_SECS, "arguments": {}}
    with open(log, "ab", buffering=0) as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        with os.fdopen(requests) as lines:
            for request in itertools.chain([start], map(json.loads, lines)):
                faulthandler.dump_traceback_later(request["limit_secs"], file=file)
                answer = answer_to(request)
                faulthandler.cancel_dump_traceback_later()
                os.write(answers, json.dumps(answer).encode() + b"\n")
    return 0


def answer_to(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run the check of a request, and return the fields of its outcome."""
    arguments = dict(request["arguments"])
    if "machine" in arguments:
        arguments["machine"] = Machine(arguments["machine"]["kind"], tuple(arguments["machine"]["devices"]))
    try:
        module = importlib.import_module(f"tpack.selftest.{request['module']}")
        finding = getattr(module, request["function"])(**arguments)
    except Skipped as reason:
        return {"result": SKIPPED, "text": str(reason)}
    except Wrong as wrong:
        return {"result": WRONG, "text": str(wrong), "advice": wrong.advice, "figures": wrong.figures}
    except Exception as error:
        # Whatever it is, the other checks go on and the report has it.
        text = "".join(traceback.format_exception_only(error)).strip()
        details = "".join(traceback.format_exception(error))
        first = text.splitlines()[0]
        return {"result": WRONG, "text": first, "advice": _advice_on(text), "details": details}
    return {"result": RIGHT, **asdict(finding)}


def _advice_on(text: str) -> str:
    """Return the advice on an exception by its text."""
    return next((advice for part, advice in _ADVICE.items() if part in text.lower()), "Report it with this page.")


_OF_MEMORY = "The system kills processes that take too much memory: dmesg | grep -i oom tells."
_ADVICE = {
    "libdevice": "XLA does not find CUDA's libdevice: set XLA_FLAGS=--xla_gpu_cuda_data_dir=DIRECTORY_OF_CUDA.",
    "ptxas": "XLA needs a ptxas that fits the driver: pip install 'tensorflow[and-cuda]', which brings one.",
    "nccl": "Set NCCL_DEBUG=INFO for what NCCL finds; train with mode='round_robin' meanwhile.",
    "resourceexhausted": "The memory of a device is full: end other processes there (nvidia-smi lists them).",
    "cudnn": "cuDNN cannot be used: pip install 'tensorflow[and-cuda]', and no other version in LD_LIBRARY_PATH.",
    "no module named": "A package is missing: install it.",
}


def all_is_right(outcomes: Sequence[Outcome]) -> bool:
    """Tell whether no check is wrong, and none that should have run did not."""
    return bool(outcomes) and all(outcome.result in (RIGHT, SKIPPED) for outcome in outcomes)


def by_name(outcomes: Sequence[Outcome], beginning: str) -> Iterator[Outcome]:
    """Yield the outcomes of checks whose names begin so."""
    return (outcome for outcome in outcomes if outcome.name.startswith(beginning))
