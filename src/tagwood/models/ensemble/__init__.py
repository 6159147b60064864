"""Several models that answer together."""
