"""How data points travel between processes: slots of shared memory, and what is written into them."""

__all__: list[str] = []
