"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.cli.main import main as main
