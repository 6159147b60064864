"""Malformed files, texts and options against the commands: ``python -m tests.support.fuzzing --cases 10000``.

Every case has a number and is made from it alone, so a failure is repeated with ``--only NUMBER``. What must hold: no
traceback, no hang, an exit code of 0, 2 or (interrupted) 130, a message where the code is 2, no half-written output.
"""
