"""One script per table or figure of the papers; results go to docs/experiments."""
