"""PRIME: a dual encoder with label prototypes."""
