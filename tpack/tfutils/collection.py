"""The public names for graph collections, under scripts' module name; the code is in ``tpack.tower.collections``."""

from tpack.tower.collections import backup_collection, freeze_collection, restore_collection

__all__ = ["backup_collection", "freeze_collection", "restore_collection"]
