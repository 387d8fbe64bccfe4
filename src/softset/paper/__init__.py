"""The papers' experiments: every table a specification, one runner, one summary."""
