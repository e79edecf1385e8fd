"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.multi_worker.tables.embedding import sharded_embedding as sharded_embedding
