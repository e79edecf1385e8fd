"""Codecs of the exchange between workers: encodings, what is kept of gradients, and how both travel."""
