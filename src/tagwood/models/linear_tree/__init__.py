"""The linear label tree (Parabel / XR-Linear class): the fast base of the toolkit."""
