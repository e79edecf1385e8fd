"""``import horovod.tensorflow`` for unedited scripts, in processes of their own."""

from pathlib import Path
from typing import Any

from tests.helpers import preloaded

SCRIPT = """
import sys
from tpack.legacy.as_horovod import install_as_horovod
install_as_horovod()
install_as_horovod()
import horovod.tensorflow as hvd
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.mpi_ops import allgather
from horovod.common.process_sets import ProcessSet
import tpack.horovod
assert hvd is tpack.horovod and hvd.__spec__.name == "tpack.horovod"
assert Compression is hvd.Compression and allgather is hvd.allgather and ProcessSet is hvd.ProcessSet
try:
    import horovod.torch
except ImportError as error:
    print(error)
hvd.init()
print(hvd.size())
"""


def run(tmp_path: Path, text: str) -> Any:
    script = tmp_path / "script.py"
    script.write_text(text)
    return preloaded.run(script, cwd=tmp_path)


def test_horovods_modules_are_tpacks(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "tpack has no horovod.torch: expected horovod.tensorflow; docs/from_horovod.md has what to use",
        "1",
    ]


def test_another_horovod_that_was_imported_is_an_error(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "import sys, types\n"
        "sys.modules['horovod'] = types.ModuleType('horovod')\n"
        "from tpack.legacy.as_horovod import install_as_horovod\n"
        "install_as_horovod()\n",
    )
    assert done.returncode == 1
    assert "call tpack.install_as_horovod() before the first import of horovod" in done.stderr
