"""The progress bar of a whole job: on a terminal, which a test has by ``pty``, and nowhere else."""

import os
import pty
import re
import subprocess
import sys

from tests.helpers.launching import Launched
from tests.helpers.source import ROOT

# Two epochs with bars of its own, told as the callback ProgressBar tells; nothing is waited for but the other rank.
SCRIPT = """
import os, time
from tpack.utils.progress import get_tqdm, launcher_line

def wait_for(step):
    open(f"{rank}-{step}", "x").close()
    while not os.path.exists(f"{1 - rank}-{step}"):
        time.sleep(0.01)

rank, line = int(os.environ["RANK"]), launcher_line()
for epoch in (1, 2):
    with get_tqdm(total=4, desc=f"own bar of {rank}", mininterval=0) as bar:
        for step in range(1, 5):
            bar.update()
            if line is not None:
                told = {"epoch": epoch, "epochs": 2, "step": step, "steps": 4, "secs": 2.0, "speed": step / 2}
                line.tell({**told, "values": {"cost": f"{rank}.5"}})
            wait_for((epoch, step))
    print("a line of", rank)
"""


def shown(output: str) -> list[str]:
    """Return the lines that a terminal shows after all this was written."""
    lines = []
    for text in output.replace("\r\n", "\n").split("\n"):
        line = ""
        for piece in text.split("\r"):
            line = piece + line[len(piece) :]
        lines.append(line.rstrip())
    return lines


def run_on_a_terminal(directory, *options):
    """Run the script in two workers on a terminal; return what was written there."""
    (directory / "script.py").write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "tpack", "launch", "-n", "2", "--log-dir", "logs", *options, "script.py"]
    own, terminal = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=directory, env=environment, stdout=terminal, stderr=terminal)
    os.close(terminal)
    written = b""
    try:
        while piece := os.read(own, 1 << 16):
            written += piece
    except OSError:
        # That is how a terminal ends that nobody has open any more.
        pass
    os.close(own)
    assert process.wait() == 0, written.decode()
    return written.decode()


def test_a_terminal_shows_one_bar_for_the_job(tmp_path):
    output = run_on_a_terminal(tmp_path)
    lines = [line for line in shown(output) if line]
    assert sorted(line for line in lines if line.startswith("[")) == ["[0] a line of 0"] * 2 + ["[1] a line of 1"] * 2
    bars = [line for line in lines if not line.startswith("[")]
    # One for each epoch, of both workers, with the values of the first.
    assert [bar.split(":")[0] for bar in bars] == ["epoch 1/2", "epoch 2/2"]
    for bar in bars:
        assert re.fullmatch(r"epoch ./2: 100%\|.*\| 4/4 \[00:02<00:00,  2.00it/s, cost=0.5\]", bar), lines
        assert len(bar) == 79
    for rank in (0, 1):
        written = (tmp_path / "logs" / f"rank{rank}.log").read_text(encoding="utf-8")
        assert written.count(f"own bar of {rank}: 100%") >= 2
        assert f"a line of {rank}\n" in written
        assert f"own bar of {rank}" not in output
    assert "epoch 1/2:  25%" in output


def test_elsewhere_lines_are_shown_as_they_come(tmp_path):
    with Launched(tmp_path, SCRIPT, "-n", "2") as launched:
        assert launched.end() == 0, launched.said()
    said = launched.said()
    assert "epoch" not in said
    for rank in (0, 1):
        assert f"[{rank}] own bar of {rank}: 100%" in said
