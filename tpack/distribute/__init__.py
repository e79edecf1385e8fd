"""Distribution strategies: towers, mirrored variables and reductions behind one interface."""
