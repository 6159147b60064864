"""The command line: one file per command, each a plain function that `app` loads when it is called.

In: arguments. Out: data on stdout, messages and progress on stderr, and an exit code: 0, 1 (our fault), 2
(the user's) or 130 (interrupted).
"""

from tagwood.cli.app import main

__all__ = ["main"]
