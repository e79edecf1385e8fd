"""The package of data sets as a whole."""

import subprocess
import sys


def test_importing_loads_no_optional_package():
    program = "import sys, tpack.dataflow.dataset; sys.exit(bool({'cv2', 'scipy', 'sklearn'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
