"""MIML: a network for groups of samples that share labels."""
