"""The package of data sets as a whole."""

import subprocess
import sys


def test_importing_loads_no_optional_package():
    optional = {"cv2", "scipy", "sklearn"}
    program = f"import sys; from tpack.dataflow.dataset import *; sys.exit(bool({optional} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
