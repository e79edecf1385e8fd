"""The algorithms: each reduces dense columns in a way of its own."""

__all__: list[str] = []
