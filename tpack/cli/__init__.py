"""The command line: ``tpack COMMAND``, one module for each command."""

from tpack.cli.main import main

__all__ = ["main"]
