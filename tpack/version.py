"""The version of tpack, in one place: ``setup.py`` reads this file, ``tpack.__version__`` repeats it."""

__version__ = "0.9.0"
