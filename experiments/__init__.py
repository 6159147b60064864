"""What the papers behind tagwood claim, repeated: one folder per paper, ``python -m experiments.PAPER``."""
