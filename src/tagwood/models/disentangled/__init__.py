"""Label disentanglement: labels with several meanings get a copy in several leaves."""
