"""One module per file format, each with `read` and `write`, the text ones also with `records`.

In: a path and `ReadOptions`, or a `Dataset` and a path. Out: a `Dataset`, `Record`s, or the file. `registry`
picks.
"""
