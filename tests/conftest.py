"""What all tests share."""

import signal

# A shell starts its background jobs with Ctrl-C ignored, and processes that the tests start and interrupt would inherit
# that.
signal.signal(signal.SIGINT, signal.default_int_handler)
