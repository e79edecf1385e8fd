"""Which reducer to take: by the kind of the devices, or by measuring."""

__all__: list[str] = []
