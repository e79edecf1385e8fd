"""Makes ``python -m tpack`` the command ``tpack``."""

import sys

from tpack.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
