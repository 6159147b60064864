"""The command line: one file per command, each a plain function that `app` loads when it runs.

In: arguments. Out: data on stdout, messages and progress on stderr, and an exit code: 0, 1 (an error of tagwood), 2
(an error in the input or arguments) or 130 (interrupted).
"""

from tagwood.cli.app import main

__all__ = ["main"]
