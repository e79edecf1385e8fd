"""Reducers around other reducers: packing, splitting, sharding, another type on the wire."""

__all__: list[str] = []
