"""From scores to probabilities, and from probabilities to label sets."""
