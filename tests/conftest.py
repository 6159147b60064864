"""What all tests share: the marker of neural tests, and Ctrl-C."""

import signal

import pytest

collect_ignore = ["support/process_tasks.py"]  # no doctests, and its kind of model may be registered only once

# A shell starts its background jobs with Ctrl-C ignored, and processes that the tests start and interrupt would inherit
# that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Mark the tests of `tests/neural`, so that a fast run can leave them out."""
    for item in items:
        if "tests/neural/" in item.path.as_posix():
            item.add_marker(pytest.mark.neural)
