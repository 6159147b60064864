"""Adapters: one module per tool with a class `Driver`, and `TextDriver` where the tool reads texts."""
