"""The kernels in plain NumPy and Python: what each must return, written to be read."""
